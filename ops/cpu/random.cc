// CPU kernels of ops/definitions/random.cc.
#include "ops/definitions/random.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "devices/base/philox.h"
#include "devices/base/text.h"
#include "ops/cpu/cpu_kernels.h"
#include "ops/cpu/float_dispatch.h"
#include "ops/elements/tree_sum.h"

namespace leat {
namespace {

// Element i of the global tensor is a function of (seed, source, step, i) alone.
template <typename T>
class RandomKernel final : public Kernel {
  using A = Compute<T>;

 public:
  RandomKernel(const KernelSetup& setup, RandomDraw draw) : draw_(draw) {
    const Shape& shape = setup.output(0).shape;
    // A shard computes rows of the global tensor, from Node::first_row on: their global index is
    // what is drawn.
    const int64_t row_elements = shape.rank() == 0 ? 1 : shape.elements(1, shape.rank());
    const int64_t rows = shape.rank() == 0 ? 1 : shape[0];
    elements_ = shape.elements();
    tile_rows_ = setup.tile_rows > 0 ? setup.tile_rows : default_tile_rows(rows, row_elements);
    tile_elements_ = tile_rows_ * row_elements;
    tiles_ = tile_count(rows, tile_rows_);
    first_ = attr_float(setup.attrs(), draw == RandomDraw::normal ? "mean" : "low");
    second_ = attr_float(setup.attrs(), draw == RandomDraw::normal ? "scale" : "high", 1);
    if (draw == RandomDraw::bernoulli) probability_dtype_ = setup.input(0).dtype;
    // Without a node, the stream is that of source 0.
    if (!setup.node) return;
    source_ = setup.node->source;
    first_element_ = setup.node->first_row * row_elements;
    has_seed_ = has_attr(setup.node->attrs, "seed");
    seed_ = seed_of(attr_float(setup.node->attrs, "seed"));
  }
  int tiles(int) const override { return tiles_; }
  Progress run(KernelContext& context, int, int tile) override {
    // The node's own seed replaces the job's. The step is part of the key, so a repeated step draws
    // the same numbers.
    const RandomStream stream(has_seed_ ? seed_ : context.step->seed, source_, context.step->step);
    const int64_t end = std::min(elements_, (tile + 1) * tile_elements_);
    T* out = context.out<T>(0);
    for (int64_t i = tile * tile_elements_; i < end; ++i) {
      const auto global = static_cast<uint64_t>(first_element_ + i);
      switch (draw_) {
        case RandomDraw::normal:
          out[i] = store_from_compute<T>(normal(stream, global));
          break;
        case RandomDraw::uniform:
          out[i] = store_from_compute<T>(uniform(stream, global));
          break;
        case RandomDraw::bernoulli: {
          const double p = float_at(context.inputs[0], probability_dtype_, i);
          out[i] = store_from_compute<T>(static_cast<A>(stream.uniform_f32(global) < p ? 1 : 0));
        }
      }
    }
    return Progress::done;
  }

 private:
  // mean + scale * z, with z from the stream. The arithmetic is in double and is rounded once.
  A normal(const RandomStream& stream, uint64_t i) const {
    if constexpr (std::is_same_v<A, double>)
      return first_ + second_ * stream.normal_f64(i);
    else
      return static_cast<A>(first_ + second_ * static_cast<double>(stream.normal_f32(i)));
  }
  // A number in [low, high): rounding must not reach high.
  A uniform(const RandomStream& stream, uint64_t i) const {
    if constexpr (std::is_floating_point_v<A>) {
      double unit = 0;
      if constexpr (std::is_same_v<A, double>)
        unit = stream.uniform_f64(i);
      else
        unit = stream.uniform_f32(i);
      const A value = static_cast<A>(first_ + (second_ - first_) * unit),
              high = static_cast<A>(second_);
      return value >= high && first_ < second_ ? std::nextafter(high, static_cast<A>(first_))
                                               : value;
    } else {
      return 0;  // validate() refuses these dtypes
    }
  }

  RandomDraw draw_;
  int64_t elements_ = 0, tile_rows_ = 1, tile_elements_ = 1;
  int tiles_ = 1;
  double first_ = 0, second_ = 1;  // mean and scale, or low and high
  DType probability_dtype_ = DType::invalid;
  uint64_t source_ = 0;
  int64_t first_element_ = 0;
  bool has_seed_ = false;
  uint64_t seed_ = 0;
};

// Sample j of row i is the class in whose stretch of the row's probabilities, laid end to end, a
// uniform number falls. The number is a function of (seed, source, step, i, j) alone.
class MultinomialKernel final : public Kernel {
 public:
  explicit MultinomialKernel(const KernelSetup& setup)
      : dtype_(setup.input(0).dtype),
        to_(setup.output(0).dtype),
        rows_(setup.input(0).shape[0]),
        classes_(setup.input(0).shape[1]),
        samples_(setup.output(0).shape[1]),
        tile_rows_(setup.tile_rows > 0 ? setup.tile_rows
                                       : default_tile_rows(rows_, classes_ + samples_)),
        subject_(setup.subject) {
    if (!setup.node) return;
    source_ = setup.node->source;
    first_row_ = setup.node->first_row;
    has_seed_ = has_attr(setup.node->attrs, "seed");
    seed_ = seed_of(attr_float(setup.node->attrs, "seed"));
  }
  int tiles(int) const override { return tile_count(rows_, tile_rows_); }
  size_t scratch_bytes() const override { return static_cast<size_t>(classes_) * sizeof(double); }
  Progress run(KernelContext& context, int, int tile) override {
    const RandomStream stream(has_seed_ ? seed_ : context.step->seed, source_, context.step->step);
    auto* const ends = reinterpret_cast<double*>(context.scratch);
    const int64_t first = tile * tile_rows_;
    for (int64_t row = first; row < std::min(rows_, first + tile_rows_); ++row) {
      if (!add_up(context.inputs[0], row, ends)) {
        context.step->fail(
            context.instruction,
            invalid_argument(cat(subject_, ": input: expected rows with a finite largest ",
                                 "log-probability and no NaN, received another one in row ",
                                 first_row_ + row)));
        return Progress::failed;
      }
      for (int64_t j = 0; j < samples_; ++j) {
        const int64_t global = (first_row_ + row) * samples_ + j;
        const double at = stream.uniform_f64(static_cast<uint64_t>(global)) * ends[classes_ - 1];
        const int64_t drawn = std::upper_bound(ends, ends + classes_, at) - ends;
        set(context, row * samples_ + j, std::min(drawn, classes_ - 1));
      }
    }
    return Progress::done;
  }

 private:
  // Sets the end of each class's stretch; false if the row has no probabilities. The largest one
  // counts 1, so that none overflows.
  bool add_up(const void* x, int64_t row, double* ends) const {
    double largest = -std::numeric_limits<double>::infinity();
    for (int64_t c = 0; c < classes_; ++c) {
      const double value = float_at(x, dtype_, row * classes_ + c);
      if (std::isnan(value)) return false;
      largest = std::max(largest, value);
    }
    if (!std::isfinite(largest)) return false;
    double sum = 0;
    for (int64_t c = 0; c < classes_; ++c)
      ends[c] = sum += std::exp(float_at(x, dtype_, row * classes_ + c) - largest);
    return true;
  }
  void set(KernelContext& context, int64_t i, int64_t value) const {
    if (to_ == DType::i32)
      context.out<int32_t>(0)[i] = static_cast<int32_t>(value);
    else
      context.out<int64_t>(0)[i] = value;
  }

  const DType dtype_, to_;
  const int64_t rows_, classes_, samples_, tile_rows_;
  const std::string subject_;
  uint64_t source_ = 0, seed_ = 0;
  int64_t first_row_ = 0;
  bool has_seed_ = false;
};

Result<std::unique_ptr<Kernel>> make_multinomial(const KernelSetup& setup) {
  if (setup.input(0).shape[1] == 0)
    return invalid_argument(cat(setup.subject, ": input: expected [rows,classes], received ",
                                setup.input(0).shape.to_string()));
  return std::unique_ptr<Kernel>(std::make_unique<MultinomialKernel>(setup));
}

KernelFactory kernel_of(RandomDraw draw) {
  return [draw](const KernelSetup& setup) -> Result<std::unique_ptr<Kernel>> {
    return dispatch_dtype(setup.output(0).dtype, [&](auto zero) -> std::unique_ptr<Kernel> {
      return std::make_unique<RandomKernel<decltype(zero)>>(setup, draw);
    });
  };
}

}  // namespace

void add_random_kernels(Catalogue& catalogue) {
  catalogue.add_kernel("RandomNormal", "cpu", kernel_of(RandomDraw::normal));
  catalogue.add_kernel("RandomUniform", "cpu", kernel_of(RandomDraw::uniform));
  catalogue.add_kernel("RandomNormalLike", "cpu", kernel_of(RandomDraw::normal));
  catalogue.add_kernel("RandomUniformLike", "cpu", kernel_of(RandomDraw::uniform));
  catalogue.add_kernel("Bernoulli", "cpu", kernel_of(RandomDraw::bernoulli));
  catalogue.add_kernel("Multinomial", "cpu", make_multinomial);
}

}  // namespace leat
