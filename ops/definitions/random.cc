#include <algorithm>
#include <bit>
#include <cmath>

#include "devices/base/philox.h"
#include "devices/base/text.h"
#include "ops/cpu/float_dispatch.h"
#include "ops/cpu/tree_sum.h"
#include "ops/definitions/definitions.h"

namespace leat {
namespace {

enum class Draw : uint8_t { normal, uniform, bernoulli };

// ONNX's seed is a float; any float names a stream of its own.
uint64_t seed_of(double written) {
  const bool whole = written >= -9e15 && written <= 9e15 && written == std::floor(written);
  return whole ? static_cast<uint64_t>(static_cast<int64_t>(written))
               : std::bit_cast<uint64_t>(written);
}

// Element i of the global tensor is a function of (seed, source, step, i) alone.
template <typename T>
class RandomKernel final : public Kernel {
  using A = Compute<T>;

 public:
  RandomKernel(const KernelSetup& setup, Draw draw) : draw_(draw) {
    const Shape& shape = setup.output(0).shape;
    const int64_t row_elements = shape.rank() == 0 ? 1 : shape.elements(1, shape.rank());
    const int64_t rows = shape.rank() == 0 ? 1 : shape[0];
    elements_ = shape.elements();
    tile_rows_ = setup.tile_rows > 0 ? setup.tile_rows : default_tile_rows(rows, row_elements);
    tile_elements_ = tile_rows_ * row_elements;
    tiles_ = tile_count(rows, tile_rows_);
    first_ = attr_float(setup.attrs(), draw == Draw::normal ? "mean" : "low");
    second_ = attr_float(setup.attrs(), draw == Draw::normal ? "scale" : "high", 1);
    if (draw == Draw::bernoulli) probability_dtype_ = setup.input(0).dtype;
    if (!setup.node) return;
    source_ = setup.node->source;
    first_element_ = setup.node->first_row * row_elements;
    has_seed_ = has_attr(setup.node->attrs, "seed");
    seed_ = seed_of(attr_float(setup.node->attrs, "seed"));
  }
  int tiles(int) const override { return tiles_; }
  Progress run(KernelContext& context, int, int tile) override {
    const RandomStream stream(has_seed_ ? seed_ : context.step->seed, source_, context.step->step);
    const int64_t end = std::min(elements_, (tile + 1) * tile_elements_);
    T* out = context.out<T>(0);
    for (int64_t i = tile * tile_elements_; i < end; ++i) {
      const auto global = static_cast<uint64_t>(first_element_ + i);
      switch (draw_) {
        case Draw::normal:
          out[i] = store_from_compute<T>(normal(stream, global));
          break;
        case Draw::uniform:
          out[i] = store_from_compute<T>(uniform(stream, global));
          break;
        case Draw::bernoulli: {
          const double p = float_at(context.inputs[0], probability_dtype_, i);
          out[i] = store_from_compute<T>(static_cast<A>(stream.uniform_f32(global) < p ? 1 : 0));
        }
      }
    }
    return Progress::done;
  }

 private:
  A normal(const RandomStream& stream, uint64_t i) const {
    if constexpr (std::is_same_v<A, double>)
      return first_ + second_ * stream.normal_f64(i);
    else
      return static_cast<A>(first_ + second_ * static_cast<double>(stream.normal_f32(i)));
  }
  // In [low, high): rounding must not reach high.
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
      return 0;  // refused by the gate
    }
  }

  Draw draw_;
  int64_t elements_ = 0, tile_rows_ = 1, tile_elements_ = 1;
  int tiles_ = 1;
  double first_ = 0, second_ = 1;  // mean and scale, or low and high
  DType probability_dtype_ = DType::invalid;
  uint64_t source_ = 0;
  int64_t first_element_ = 0;
  bool has_seed_ = false;
  uint64_t seed_ = 0;
};

KernelFactory kernel_of(Draw draw) {
  return [draw](const KernelSetup& setup) -> Result<std::unique_ptr<Kernel>> {
    return dispatch_dtype(setup.output(0).dtype, [&](auto zero) -> std::unique_ptr<Kernel> {
      return std::make_unique<RandomKernel<decltype(zero)>>(setup, draw);
    });
  };
}

// The dtype that attribute `dtype` (ONNX's number) names, or `fallback`.
Result<DType> wanted_dtype(const InferContext& ctx, DType fallback, DTypeSet allowed) {
  if (!has_attr(ctx.attrs(), "dtype")) {
    if (allowed.has(fallback)) return fallback;
    return ctx.error(
        cat("dtype: expected to be given, the input's ", fallback, " cannot be drawn"));
  }
  const int64_t code = attr_int(ctx.attrs(), "dtype");
  const DType dtype = dtype_from_onnx_code(code);
  if (dtype == DType::invalid || !allowed.has(dtype)) {
    return ctx.error(
        cat("dtype: expected a type that can be drawn, received ", code, " (", dtype, ")"));
  }
  return dtype;
}

Status check_range(const InferContext& ctx, Draw draw) {
  if (draw == Draw::uniform &&
      attr_float(ctx.attrs(), "low") > attr_float(ctx.attrs(), "high", 1)) {
    return ctx.error(cat("expected low <= high, received ", attr_float(ctx.attrs(), "low"), " and ",
                         attr_float(ctx.attrs(), "high", 1)));
  }
  return {};
}

auto infer_of_shape(Draw draw) {
  return [draw](InferContext& ctx) -> Status {
    LEAT_RETURN_IF_ERROR(check_range(ctx, draw));
    LEAT_ASSIGN_OR_RETURN(const DType dtype, wanted_dtype(ctx, DType::f32, kFloats));
    const std::vector<int64_t> sizes = attr_ints(ctx.attrs(), "shape");
    const auto shape = Shape::checked(sizes);
    if (!shape)
      return ctx.error(cat("shape: expected up to ", kMaxRank, " sizes >= 0, received [",
                           join(sizes, ","), "]"));
    ctx.set_tensor(0, dtype, *shape);
    return {};
  };
}

auto infer_like(Draw draw) {
  return [draw](InferContext& ctx) -> Status {
    LEAT_RETURN_IF_ERROR(check_range(ctx, draw));
    const DTypeSet allowed = draw == Draw::bernoulli ? kAllTypes : kFloats;
    LEAT_ASSIGN_OR_RETURN(const DType dtype, wanted_dtype(ctx, ctx.dtype(0), allowed));
    ctx.set_tensor(0, dtype, ctx.shape(0));
    return {};
  };
}

Tiling tile_rows(const OpTypes& types) {
  const Shape& shape = types.outputs[0].shape;
  if (shape.rank() == 0) return {};
  return {shape[0], types.inputs.empty() ? 0u : 1u, 1};
}

std::vector<ShardingRule> shard_rows(const std::vector<OperandType>& inputs,
                                     const std::vector<OperandType>& outputs, const Attrs&) {
  if (outputs[0].shape.rank() == 0) return {};
  return {{std::vector<Spread>(inputs.size(), Spread::on(0)), {Spread::on(0)}}};
}

void add_distribution(Op& op, Draw draw) {
  const bool normal = draw == Draw::normal;
  op.attr(normal ? "mean" : "low", 0.0)
      .attr(normal ? "scale" : "high", 1.0)
      .attr_optional("seed", "float");
}

// Of a shape in the attributes. A shard would have another shape, so there is no rule for splits.
Op shaped_op(const char* name, Draw draw) {
  Op op(name, 1);
  op.output("output", "T")
      .attr("dtype", int64_t{1})
      .attr_required("shape", "ints")
      .type("T", kFloats)
      .random();
  add_distribution(op, draw);
  return op.infer(infer_of_shape(draw)).tiling(tile_rows).kernel("cpu", kernel_of(draw));
}

// Of the shape of an input, whose values matter for Bernoulli alone.
Op like_op(const char* name, int since, Draw draw) {
  Op op(name, since);
  op.input("input", "T1")
      .output("output", "T2")
      .attr_optional("dtype", "int")
      .type("T2", kAllTypes)
      .random();
  op.type("T1", draw == Draw::bernoulli ? kFloats : kAllTypes);
  if (draw == Draw::bernoulli)
    op.attr_optional("seed", "float");
  else
    add_distribution(op, draw);
  return op.infer(infer_like(draw))
      .sharding(shard_rows)
      .tiling(tile_rows)
      .kernel("cpu", kernel_of(draw));
}

}  // namespace

void register_random_ops(Catalogue& catalogue) {
  catalogue.add(shaped_op("RandomNormal", Draw::normal));
  catalogue.add(shaped_op("RandomUniform", Draw::uniform));
  catalogue.add(like_op("RandomNormalLike", 1, Draw::normal));
  catalogue.add(like_op("RandomUniformLike", 1, Draw::uniform));
  catalogue.add(like_op("Bernoulli", 15, Draw::bernoulli));
}

}  // namespace leat
