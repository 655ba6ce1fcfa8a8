// CPU kernels of ops/definitions/random.cc.
#include "ops/definitions/random.h"

#include <algorithm>
#include <cmath>

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
}

}  // namespace leat
