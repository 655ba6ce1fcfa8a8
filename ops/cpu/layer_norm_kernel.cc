#include <algorithm>
#include <cmath>

#include "ops/cpu/convert16.h"
#include "ops/cpu/float_dispatch.h"
#include "ops/cpu/normalization_kernels.h"
#include "ops/cpu/vectorize.h"
#include "ops/elements/tree_sum.h"

namespace leat {
namespace {

// The columns of one tile of phase 2 of the gradient.
constexpr int64_t kGradColumns = 256;

// y may be x. No scratch memory is needed: y holds the deviations before they are scaled. y = (x -
// mean) * inverse * scale + bias, with inverse = 1 / sqrt(variance + epsilon). The variance is that
// of the deviations, in a second pass: E(x^2) - mean^2 would cancel.
template <typename A>
LEAT_INLINE void normalize(const A* x, const A* scale, const A* bias, A epsilon, A* y, int64_t n,
                           A* mean, A* inverse) {
  *mean = tree_sum(x, n) / static_cast<A>(n);
  const A middle = *mean;
  LEAT_NO_OVERLAP
  for (int64_t i = 0; i < n; ++i) y[i] = x[i] - middle;
  const A factor = 1 / std::sqrt(tree_sum<Squared>(y, n) / static_cast<A>(n) + epsilon);
  *inverse = factor;
  LEAT_NO_OVERLAP
  for (int64_t i = 0; i < n; ++i) y[i] = y[i] * factor * scale[i];
  if (!bias) return;
  LEAT_NO_OVERLAP
  for (int64_t i = 0; i < n; ++i) y[i] = y[i] + bias[i];
}

// With g = dy * scale and h = (x - mean) * inverse:  dx = inverse * (g - mean(g) - h * mean(g h)).
// `products` has room for n elements.
template <typename A>
LEAT_INLINE void normalize_back(const A* dy, const A* x, const A* scale, A mean, A inverse, A* dx,
                                A* products, int64_t n) {
  LEAT_NO_OVERLAP
  for (int64_t i = 0; i < n; ++i) dx[i] = dy[i] * scale[i];
  LEAT_NO_OVERLAP
  for (int64_t i = 0; i < n; ++i) products[i] = dx[i] * ((x[i] - mean) * inverse);
  const A shift = tree_sum(dx, n) / static_cast<A>(n),
          slope = tree_sum(products, n) / static_cast<A>(n);
  LEAT_NO_OVERLAP
  for (int64_t i = 0; i < n; ++i)
    dx[i] = inverse * (dx[i] - shift - (x[i] - mean) * inverse * slope);
}

LEAT_VECTOR_CLONES void normalize_line(const float* x, const float* scale, const float* bias,
                                       float epsilon, float* y, int64_t n, float* mean,
                                       float* inverse) {
  normalize(x, scale, bias, epsilon, y, n, mean, inverse);
}
void normalize_line(const double* x, const double* scale, const double* bias, double epsilon,
                    double* y, int64_t n, double* mean, double* inverse) {
  normalize(x, scale, bias, epsilon, y, n, mean, inverse);
}
LEAT_VECTOR_CLONES void back_line(const float* dy, const float* x, const float* scale, float mean,
                                  float inverse, float* dx, float* products, int64_t n) {
  normalize_back(dy, x, scale, mean, inverse, dx, products, n);
}
void back_line(const double* dy, const double* x, const double* scale, double mean, double inverse,
               double* dx, double* products, int64_t n) {
  normalize_back(dy, x, scale, mean, inverse, dx, products, n);
}
// Adds one line to the gradients: dscale += dy * (x - mean) * inverse and dbias += dy.
LEAT_VECTOR_CLONES void add_line(const float* dy, const float* x, float mean, float inverse,
                                 float* dscale, float* dbias, int64_t n) {
  LEAT_NO_OVERLAP
  for (int64_t i = 0; i < n; ++i) dscale[i] = dscale[i] + dy[i] * ((x[i] - mean) * inverse);
  LEAT_NO_OVERLAP
  for (int64_t i = 0; i < n; ++i) dbias[i] = dbias[i] + dy[i];
}
void add_line(const double* dy, const double* x, double mean, double inverse, double* dscale,
              double* dbias, int64_t n) {
  for (int64_t i = 0; i < n; ++i) dscale[i] += dy[i] * ((x[i] - mean) * inverse);
  for (int64_t i = 0; i < n; ++i) dbias[i] += dy[i];
}

// The shape [lines, size] of x.
struct LineShape {
  LineShape(const KernelSetup& setup, int input) {
    const Shape& shape = setup.input(input).shape;
    const int64_t written = attr_int(setup.attrs(), "axis", -1);
    const int axis = static_cast<int>(written < 0 ? written + shape.rank() : written);
    lines = shape.elements(0, axis);
    size = shape.elements(axis, shape.rank());
    // A row of dimension 0 has lines / shape[0] lines; a chain gives its tiles in rows.
    if (setup.tile_rows > 0) {
      tile_lines = std::max<int64_t>(1, setup.tile_rows * (lines / std::max<int64_t>(1, shape[0])));
      tiles = tile_count(shape[0], setup.tile_rows);
    } else {
      tile_lines = default_tile_rows(lines, size);
      tiles = tile_count(lines, tile_lines);
    }
  }
  int64_t lines = 1, size = 1, tile_lines = 1;
  int tiles = 1;
};

// The elements as the compute type: themselves, or, for f16 and bf16, a copy in `buffer`.
template <typename T>
const Compute<T>* as_compute(const T* from, int64_t n, Compute<T>* buffer) {
  if constexpr (std::is_same_v<T, Compute<T>>) {
    return from;
  } else {
    widen(from, buffer, n);
    return buffer;
  }
}

// Each tile normalizes lines that are its own. The scratch memory has room for scale, bias, x and y
// as the compute type.
template <typename T>
class LayerNormKernel final : public Kernel {
  using A = Compute<T>;

 public:
  explicit LayerNormKernel(const KernelSetup& setup)
      : at_(setup, 0),
        has_bias_(setup.types.has_input(2)),
        has_mean_(setup.types.has_output(1)),
        has_inverse_(setup.types.has_output(2)),
        epsilon_(static_cast<A>(attr_float(setup.attrs(), "epsilon", 1e-5))) {}
  int tiles(int) const override { return at_.tiles; }
  size_t scratch_bytes() const override { return static_cast<size_t>(4 * at_.size) * sizeof(A); }
  Progress run(KernelContext& context, int, int tile) override {
    A* buffer = reinterpret_cast<A*>(context.scratch);
    const A* scale = as_compute(context.in<T>(1), at_.size, buffer);
    const A* bias = has_bias_ ? as_compute(context.in<T>(2), at_.size, buffer + at_.size) : nullptr;
    const int64_t end = std::min(at_.lines, (tile + 1) * at_.tile_lines);
    for (int64_t line = tile * at_.tile_lines; line < end; ++line) {
      const int64_t first = line * at_.size;
      const A* x = as_compute(context.in<T>(0) + first, at_.size, buffer + 2 * at_.size);
      // A float or double line is written in place; f16 and bf16 are rounded from the buffer.
      A mean = 0, inverse = 0;
      if constexpr (std::is_same_v<T, A>) {
        normalize_line(x, scale, bias, epsilon_, context.out<T>(0) + first, at_.size, &mean,
                       &inverse);
      } else {
        A* y = buffer + 3 * at_.size;
        normalize_line(x, scale, bias, epsilon_, y, at_.size, &mean, &inverse);
        narrow(y, context.out<T>(0) + first, at_.size);
      }
      // The statistics stay in the compute type, so that the gradient reads them unrounded.
      if (has_mean_) context.out<A>(1)[line] = mean;
      if (has_inverse_) context.out<A>(2)[line] = inverse;
    }
    return Progress::done;
  }

 private:
  LineShape at_;
  bool has_bias_, has_mean_, has_inverse_;
  A epsilon_;
};

// Phase 0: rows of dx. Phase 1: sums of dscale and dbias over kRowBlock lines each. Phase 2: their
// trees, by columns.
template <typename T>
class LayerNormGradKernel final : public Kernel {
  using A = Compute<T>;

 public:
  explicit LayerNormGradKernel(const KernelSetup& setup) : at_(setup, 1) {
    leaves_ = (at_.lines + kRowBlock - 1) / kRowBlock;
  }
  int phases() const override { return 3; }
  // A leaf is kRowBlock lines, whatever the tiles of phase 0 are: a chain cannot change the sums.
  int tiles(int phase) const override {
    if (phase == 0) return at_.tiles;
    return phase == 1 ? std::max(1, static_cast<int>(leaves_)) : tile_count(at_.size, kGradColumns);
  }
  // For each leaf, `size` sums of dscale and then `size` sums of dbias.
  size_t workspace_bytes() const override {
    return static_cast<size_t>(2 * leaves_ * at_.size) * sizeof(A);
  }
  size_t scratch_bytes() const override {
    const int64_t stack =
        TreeStack<SumFold, A>::buffers(std::max<int64_t>(1, leaves_)) * kGradColumns;
    return static_cast<size_t>(std::max(5 * at_.size, stack)) * sizeof(A);
  }
  Progress run(KernelContext& context, int phase, int tile) override {
    if (phase == 0)
      differentiate(context, tile);
    else if (phase == 1)
      sum_block(context, tile);
    else
      finish_columns(context, tile);
    return Progress::done;
  }

 private:
  // Phase 0. The buffer has scale, dy, x, the products, and dx, each of `size` elements.
  void differentiate(KernelContext& context, int tile) const {
    A* buffer = reinterpret_cast<A*>(context.scratch);
    const A* scale = as_compute(context.in<T>(2), at_.size, buffer);
    const int64_t end = std::min(at_.lines, (tile + 1) * at_.tile_lines), n = at_.size;
    for (int64_t line = tile * at_.tile_lines; line < end; ++line) {
      const A *dy = as_compute(context.in<T>(0) + line * n, n, buffer + n),
              *x = as_compute(context.in<T>(1) + line * n, n, buffer + 2 * n);
      const A mean = context.in<A>(3)[line], inverse = context.in<A>(4)[line];
      T* dx = context.out<T>(0) + line * n;
      if constexpr (std::is_same_v<T, A>) {
        back_line(dy, x, scale, mean, inverse, dx, buffer + 3 * n, n);
      } else {
        back_line(dy, x, scale, mean, inverse, buffer + 4 * n, buffer + 3 * n, n);
        narrow(buffer + 4 * n, dx, n);
      }
    }
  }

  // The sums of a leaf: `which` is 0 for dscale and 1 for dbias.
  A* partial(const KernelContext& context, int64_t leaf, int which) const {
    return reinterpret_cast<A*>(context.workspace) + (2 * leaf + which) * at_.size;
  }
  // Phase 1: adds the lines of one leaf, in their order.
  void sum_block(KernelContext& context, int block) const {
    if (leaves_ == 0) return;
    A* buffer = reinterpret_cast<A*>(context.scratch);
    A *dscale = partial(context, block, 0), *dbias = partial(context, block, 1);
    std::fill_n(dscale, 2 * at_.size, A(0));
    const int64_t n = at_.size, end = std::min(at_.lines, (block + 1) * kRowBlock);
    for (int64_t line = block * kRowBlock; line < end; ++line) {
      add_line(as_compute(context.in<T>(0) + line * n, n, buffer),
               as_compute(context.in<T>(1) + line * n, n, buffer + n), context.in<A>(3)[line],
               context.in<A>(4)[line], dscale, dbias, n);
    }
  }
  // Phase 2: the tree over the leaves, for kGradColumns columns of dscale and of dbias. Without a
  // line both are zero.
  void finish_columns(KernelContext& context, int tile) const {
    const int64_t first = tile * kGradColumns, width = std::min(kGradColumns, at_.size - first);
    for (int which : {0, 1}) {
      if (!context.outputs[1 + which]) continue;
      T* out = context.out<T>(1 + which) + first;
      TreeStack<SumFold, A> stack(reinterpret_cast<A*>(context.scratch), width);
      for (int64_t leaf = 0; leaf < leaves_; ++leaf) {
        std::copy_n(partial(context, leaf, which) + first, width, stack.top());
        stack.push();
      }
      const A* sum = stack.finish();
      for (int64_t j = 0; j < width; ++j)
        out[j] = leaves_ == 0 ? T{} : store_from_compute<T>(sum[j]);
    }
  }

  LineShape at_;
  int64_t leaves_ = 0;
};

}  // namespace

Result<std::unique_ptr<Kernel>> make_layer_norm_kernel(const KernelSetup& setup) {
  return dispatch_float(setup.input(0).dtype, [&]<typename T>(T) -> std::unique_ptr<Kernel> {
    return std::make_unique<LayerNormKernel<T>>(setup);
  });
}

Result<std::unique_ptr<Kernel>> make_layer_norm_grad_kernel(const KernelSetup& setup) {
  return dispatch_float(setup.input(1).dtype, [&]<typename T>(T) -> std::unique_ptr<Kernel> {
    return std::make_unique<LayerNormGradKernel<T>>(setup);
  });
}

}  // namespace leat
