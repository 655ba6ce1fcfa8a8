#include "ops/definitions/random.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "devices/base/philox.h"
#include "devices/base/text.h"
#include "ops/definitions/definitions.h"

namespace leat {
namespace {

// A shaped op has no input; the Like ops have one, which is of rows.
Tiling random_tiling(const OpTypes& types) {
  const Shape& shape = types.outputs[0].shape;
  if (shape.rank() == 0) return {};
  return {shape[0], types.inputs.empty() ? 0u : 1u, 1};
}

// The dtype of attribute `dtype` (a number of ONNX), or `fallback` if it is absent.
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

// Only the uniform distribution has bounds. An empty range [low, low) is accepted.
Status check_range(const InferContext& ctx, RandomDraw draw) {
  if (draw == RandomDraw::uniform &&
      attr_float(ctx.attrs(), "low") > attr_float(ctx.attrs(), "high", 1)) {
    return ctx.error(cat("expected low <= high, received ", attr_float(ctx.attrs(), "low"), " and ",
                         attr_float(ctx.attrs(), "high", 1)));
  }
  return {};
}

auto infer_of_shape(RandomDraw draw) {
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

// Bernoulli draws 0 or 1, which every type can hold; the other distributions need a float.
auto infer_like(RandomDraw draw) {
  return [draw](InferContext& ctx) -> Status {
    LEAT_RETURN_IF_ERROR(check_range(ctx, draw));
    const DTypeSet allowed = draw == RandomDraw::bernoulli ? kAllTypes : kFloats;
    LEAT_ASSIGN_OR_RETURN(const DType dtype, wanted_dtype(ctx, ctx.dtype(0), allowed));
    ctx.set_tensor(0, dtype, ctx.shape(0));
    return {};
  };
}

// A class is drawn for each sample of a row, by the log-probabilities of the row.
Status infer_multinomial(InferContext& ctx) {
  const SymbolicShape& x = ctx.shape(0);
  if (x.rank() != 2 || x[1] == Dim::of(0))
    return ctx.error(cat("input: expected [rows,classes], received ", ctx.text(x)));
  const int64_t samples = attr_int(ctx.attrs(), "sample_size", 1),
                code = attr_int(ctx.attrs(), "dtype", 6);
  if (samples < 0) return ctx.error(cat("sample_size: expected at least 0, received ", samples));
  const DType dtype = dtype_from_onnx_code(code);
  if (dtype != DType::i32 && dtype != DType::i64)
    return ctx.error(cat("dtype: expected that of int32 or int64, received ", code));
  ctx.set_tensor(0, dtype, {x[0], Dim::of(samples)});
  return {};
}

// A split of axis 0 draws the same numbers as the whole: Node::first_row is where a shard begins.
std::vector<ShardingRule> shard_rows(const std::vector<OperandType>& inputs,
                                     const std::vector<OperandType>& outputs, const Attrs&) {
  if (outputs[0].shape.rank() == 0) return {};
  return {{std::vector<Spread>(inputs.size(), Spread::on(0)), {Spread::on(0)}}};
}

void add_distribution(Op& op, RandomDraw draw) {
  const bool normal = draw == RandomDraw::normal;
  op.attr(normal ? "mean" : "low", 0.0)
      .attr(normal ? "scale" : "high", 1.0)
      .attr_optional("seed", "float");
}

// An op whose output has a shape from the attributes. There are no split rules, because a shard
// would need another shape.
Op shaped_op(const char* name, RandomDraw draw) {
  Op op(name, 1);
  op.output("output", "T")
      .attr("dtype", int64_t{1})
      .attr_required("shape", "ints")
      .type("T", kFloats)
      .random();
  add_distribution(op, draw);
  return op.infer(infer_of_shape(draw)).tiling(random_tiling);
}

// An op whose output has the shape of an input. Only Bernoulli reads the values of the input.
Op like_op(const char* name, int since, RandomDraw draw) {
  Op op(name, since);
  op.input("input", "T1")
      .output("output", "T2")
      .attr_optional("dtype", "int")
      .type("T2", kAllTypes)
      .random();
  op.type("T1", draw == RandomDraw::bernoulli ? kFloats : kAllTypes);
  if (draw == RandomDraw::bernoulli)
    op.attr_optional("seed", "float");
  else
    add_distribution(op, draw);
  return op.infer(infer_like(draw)).sharding(shard_rows).tiling(random_tiling);
}

}  // namespace

void register_random_ops(Catalogue& catalogue) {
  catalogue.add(shaped_op("RandomNormal", RandomDraw::normal));
  catalogue.add(shaped_op("RandomUniform", RandomDraw::uniform));
  catalogue.add(like_op("RandomNormalLike", 1, RandomDraw::normal));
  catalogue.add(like_op("RandomUniformLike", 1, RandomDraw::uniform));
  catalogue.add(like_op("Bernoulli", 15, RandomDraw::bernoulli));
  catalogue.add(Op("Multinomial", 22)
                    .input("input", "T1")
                    .output("output", "T2")
                    .type("T1", kFloats)
                    .type("T2", kIndexTypes)
                    .attr("dtype", int64_t{6})
                    .attr("sample_size", int64_t{1})
                    .attr_optional("seed", "float")
                    .random()
                    .infer(infer_multinomial)
                    .sharding(shard_rows)
                    .tiling(random_tiling));
}

}  // namespace leat
