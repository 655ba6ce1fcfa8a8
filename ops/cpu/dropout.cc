// CPU kernels of ops/definitions/dropout.cc.
#include <algorithm>
#include <bit>

#include "devices/base/philox.h"
#include "devices/base/text.h"
#include "ops/cpu/compute_in_f32.h"
#include "ops/cpu/cpu_kernels.h"
#include "ops/cpu/vectorize.h"
#include "ops/elements/any_float.h"

namespace leat {
namespace {

constexpr double kDefaultRatio = 0.5;
constexpr int64_t kBlock = 1024;
// Input 1 of Dropout (2 of its gradient) and the input after it, read when the step runs. The ratio
// and the training mode are values of the step, so a kernel cannot know them earlier.
struct Switches {
  int ratio_input = 1;
  DType ratio_dtype = DType::invalid;  // invalid: absent
  bool has_training = false;
  Switches(const OpTypes& types, int ratio)
      : ratio_input(ratio), has_training(types.has_input(ratio + 1)) {
    if (types.has_input(ratio)) ratio_dtype = types.inputs[static_cast<size_t>(ratio)].dtype;
  }
  // The ratio; 0 outside of training, so that no element is dropped.
  double ratio(const KernelContext& context) const {
    if (!has_training || !*context.in<bool>(ratio_input + 1)) return 0;
    return ratio_dtype == DType::invalid ? kDefaultRatio
                                         : float_at(context.inputs[ratio_input], ratio_dtype, 0);
  }
};

// y and the mask differ in the size of their elements, so each has a loop of its own.
LEAT_VECTOR_CLONES void drop_f32(const float* x, const float* draws, float ratio, float scale,
                                 float* y, bool* mask, int64_t n) {
  LEAT_NO_OVERLAP
  for (int64_t i = 0; i < n; ++i) y[i] = draws[i] >= ratio ? x[i] * scale : 0.0f;
  for (int64_t i = 0; i < n; ++i) mask[i] = draws[i] >= ratio;
}

// Masks the bits: for a conditional the compiler emits a branch, which is mispredicted half the
// time.
LEAT_VECTOR_CLONES void undrop_f32(const float* dy, const bool* mask, float scale, float* dx,
                                   int64_t n) {
  LEAT_NO_OVERLAP
  for (int64_t i = 0; i < n; ++i) {
    const uint32_t kept = 0 - static_cast<uint32_t>(mask[i]);
    dx[i] = std::bit_cast<float>(std::bit_cast<uint32_t>(dy[i] * scale) & kept);
  }
}

void drop(const float* x, const float* draws, float ratio, double scale, float* y, bool* mask,
          int64_t n) {
  drop_f32(x, draws, ratio, static_cast<float>(scale), y, mask, n);
}
void drop(const double* x, const float* draws, float ratio, double scale, double* y, bool* mask,
          int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    mask[i] = draws[i] >= ratio;
    y[i] = mask[i] ? x[i] * scale : 0;
  }
}

void undrop(const float* dy, const bool* mask, double scale, float* dx, int64_t n) {
  undrop_f32(dy, mask, static_cast<float>(scale), dx, n);
}
void undrop(const double* dy, const bool* mask, double scale, double* dx, int64_t n) {
  for (int64_t i = 0; i < n; ++i) dx[i] = mask[i] ? dy[i] * scale : 0;
}

// Tiles of rows, or of elements if there are no rows.
struct ElementTiles {
  explicit ElementTiles(const KernelSetup& setup) {
    const Shape& shape = setup.input(0).shape;
    elements = shape.elements();
    row_elements = shape.rank() == 0 ? 1 : shape.elements(1, shape.rank());
    const int64_t rows = shape.rank() == 0 ? 1 : shape[0];
    tile_rows = setup.tile_rows > 0 ? setup.tile_rows : default_tile_rows(rows, row_elements);
    tile_elements = tile_rows * row_elements;
    tiles = tile_count(rows, tile_rows);
  }
  int64_t elements = 0, row_elements = 1, tile_rows = 1, tile_elements = 1;
  int tiles = 1;
};

// Element i of the global tensor is kept if its random number, uniform in [0,1), is at least the
// ratio.
template <typename T>
class DropoutKernel final : public Kernel {
 public:
  static constexpr int kRatio = 1;  // the input
  explicit DropoutKernel(const KernelSetup& setup)
      : tiles_(setup),
        switches_(setup.types, kRatio),
        subject_(setup.subject),
        has_mask_(setup.types.has_output(1)) {
    if (setup.node) {
      source_ = setup.node->source;
      first_element_ = setup.node->first_row * tiles_.row_elements;
      has_seed_ = has_attr(setup.node->attrs, "seed");
      seed_ = static_cast<uint64_t>(attr_int(setup.node->attrs, "seed"));
    }
  }
  int tiles(int) const override { return tiles_.tiles; }
  Progress run(KernelContext& context, int, int tile) override {
    const double ratio = switches_.ratio(context);
    if (!(ratio >= 0 && ratio <= 1)) {
      context.step->fail(
          context.instruction,
          invalid_argument(cat(subject_, ": ratio: expected in [0, 1], received ", ratio)));
      return Progress::failed;
    }
    const RandomStream stream(has_seed_ ? seed_ : context.step->seed, source_, context.step->step);
    // Kept elements are scaled by 1 / (1 - ratio), which keeps the expected value. With ratio 1
    // none is kept.
    const double scale = ratio < 1 ? 1 / (1 - ratio) : 0;
    const int64_t end = std::min(tiles_.elements, (tile + 1) * tiles_.tile_elements);
    float draws[kBlock];
    bool unwanted[kBlock];
    // The numbers are drawn in blocks that stay in the level 1 cache, by the function that draws
    // many.
    for (int64_t at = tile * tiles_.tile_elements; at < end; at += kBlock) {
      const int64_t n = std::min(kBlock, end - at);
      if (ratio > 0)
        stream.fill_uniform(static_cast<uint64_t>(first_element_ + at),
                            {draws, static_cast<size_t>(n)});
      else
        std::fill_n(draws, n, 1.0f);
      bool* mask = has_mask_ ? context.out<bool>(1) + at : unwanted;
      drop(context.in<T>(0) + at, draws, static_cast<float>(ratio), scale, context.out<T>(0) + at,
           mask, n);
    }
    return Progress::done;
  }

 private:
  ElementTiles tiles_;
  Switches switches_;
  std::string subject_;
  bool has_mask_ = false;
  uint64_t source_ = 0;
  int64_t first_element_ = 0;
  bool has_seed_ = false;
  uint64_t seed_ = 0;
};

template <typename T>
class DropoutGradKernel final : public Kernel {
 public:
  static constexpr int kRatio = 2;  // the input
  explicit DropoutGradKernel(const KernelSetup& setup)
      : tiles_(setup), switches_(setup.types, kRatio) {}
  int tiles(int) const override { return tiles_.tiles; }
  Progress run(KernelContext& context, int, int tile) override {
    // The forward kernel has checked the ratio in this step. The mask alone decides which elements
    // count.
    const double ratio = switches_.ratio(context);
    const int64_t at = tile * tiles_.tile_elements,
                  end = std::min(tiles_.elements, at + tiles_.tile_elements);
    undrop(context.in<T>(0) + at, context.in<bool>(1) + at, ratio < 1 ? 1 / (1 - ratio) : 0,
           context.out<T>(0) + at, end - at);
    return Progress::done;
  }

 private:
  ElementTiles tiles_;
  Switches switches_;
};

// The ratio keeps its type: Switches reads any.
template <template <typename> class K>
Result<std::unique_ptr<Kernel>> make_elements(const KernelSetup& setup) {
  const DType dtype = setup.input(0).dtype;
  if (is_16bit_float(dtype)) {
    return compute_in_f32(
        setup, make_elements<K>,
        {.tile_rows = ElementTiles(setup).tile_rows, .kept_inputs = 1u << K<float>::kRatio});
  }
  if (dtype == DType::f64) return std::unique_ptr<Kernel>(std::make_unique<K<double>>(setup));
  return std::unique_ptr<Kernel>(std::make_unique<K<float>>(setup));
}

}  // namespace

void add_dropout_kernels(Catalogue& catalogue) {
  catalogue.add_kernel("Dropout", "cpu", make_elements<DropoutKernel>);
  catalogue.add_kernel("leat.DropoutGrad", "cpu", make_elements<DropoutGradKernel>);
}

}  // namespace leat
