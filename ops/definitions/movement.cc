// Ops that move elements: Transpose, Concat, Split, Expand, Tile.
#include "ops/definitions/movement.h"

#include <algorithm>
#include <numeric>

#include "devices/base/text.h"
#include "ops/definitions/definitions.h"
#include "ops/definitions/elementwise.h"
#include "ops/definitions/shapes.h"

namespace leat {
namespace {

Status infer_transpose(InferContext& ctx) {
  const SymbolicShape& in = ctx.shape(0);
  const TransposeAxes perm = permutation(ctx.attrs(), in.rank());
  TransposeAxes sorted = perm, all(static_cast<size_t>(in.rank()));
  std::sort(sorted.begin(), sorted.end());
  std::iota(all.begin(), all.end(), 0);
  if (sorted != all) {
    return ctx.error(cat("perm: expected each axis of ", ctx.text(in), " once, received [",
                         join(perm, ","), "]"));
  }
  SymbolicShape out;
  for (int64_t axis : perm) out.push_back(in[static_cast<int>(axis)]);
  ctx.set_tensor(0, ctx.dtype(0), out);
  return {};
}

// Rows of the output are rows of the input only if axis 0 stays in its place.
Tiling transpose_tiling(const OpTypes& types) {
  const Shape& out = types.outputs[0].shape;
  const TransposeAxes perm = permutation(*types.attrs, out.rank());
  if (out.rank() == 0 || perm[0] != 0 || out[0] <= 1) return {};
  return {out[0], 1, 1};
}

// The gradient is the transposition by the inverse permutation.
Status transpose_gradient(GradientContext& ctx) {
  const TransposeAxes perm = permutation(ctx.node().attrs, ctx.type(ctx.input(0)).shape.rank());
  TransposeAxes inverse(perm.size());
  for (size_t d = 0; d < perm.size(); ++d)
    inverse[static_cast<size_t>(perm[d])] = static_cast<int64_t>(d);
  ctx.set_grad(0, ctx.emit("Transpose", {ctx.grad(0)}, {{"perm", inverse}}));
  return {};
}

// Output axis d is input axis perm[d], so a split of one is a split of the other.
std::vector<ShardingRule> shard_transpose(const std::vector<OperandType>& inputs,
                                          const std::vector<OperandType>&, const Attrs& attrs) {
  const TransposeAxes perm = permutation(attrs, inputs[0].shape.rank());
  std::vector<ShardingRule> rules;
  for (size_t d = 0; d < perm.size(); ++d) {
    rules.push_back({{Spread::on(static_cast<int>(perm[d]))}, {Spread::on(static_cast<int>(d))}});
  }
  rules.push_back({{Spread::sum()}, {Spread::sum()}});
  return rules;
}

// --- Concat and Split ------------------------------------------------------------------------

// Rules for all axes but `axis`: one rule splits all operands along the same axis. The last rule is
// that partial sums give partial sums.
std::vector<ShardingRule> shard_beside(size_t inputs, size_t outputs, int rank, int axis) {
  std::vector<ShardingRule> rules;
  for (int d = 0; d < rank; ++d) {
    if (d == axis) continue;
    rules.push_back(
        {std::vector<Spread>(inputs, Spread::on(d)), std::vector<Spread>(outputs, Spread::on(d))});
  }
  rules.push_back(
      {std::vector<Spread>(inputs, Spread::sum()), std::vector<Spread>(outputs, Spread::sum())});
  return rules;
}

Status infer_concat(InferContext& ctx) {
  SymbolicShape out = ctx.shape(0);
  LEAT_ASSIGN_OR_RETURN(const int axis,
                        normalize_axis(ctx, attr_int(ctx.attrs(), "axis"), out.rank()));
  Dim total = out[axis];
  // The other axes must agree; a constant from any input replaces a symbol. The sizes along `axis`
  // add up as long as they have one symbol, else the total is a new symbol.
  for (int i = 1; i < ctx.inputs(); ++i) {
    const SymbolicShape& shape = ctx.shape(i);
    bool fits = shape.rank() == out.rank();
    for (int d = 0; fits && d < out.rank(); ++d) {
      if (d == axis || shape[d] == out[d]) continue;
      fits = !shape[d].is_constant() || !out[d].is_constant();  // a symbol may turn out to be equal
      if (shape[d].is_constant()) out.set(d, shape[d]);
    }
    if (!fits) {
      return ctx.error(cat("expected shapes that differ on axis ", axis, " alone, received ",
                           ctx.text(ctx.shape(0)), " and, as input ", i, ", ", ctx.text(shape)));
    }
    const Dim more = shape[axis];
    const auto sum = checked_add(total.factor, more.factor);
    if (!sum) return ctx.error("the sum of the sizes is too large");
    if (more == Dim::of(0)) continue;
    if (total == Dim::of(0))
      total = more;
    else if (total.symbol == more.symbol)
      total.factor = *sum;
    else
      total = Dim::of_symbol(ctx.fresh_symbol());
  }
  out.set(axis, total);
  ctx.set_tensor(0, ctx.dtype(0), out);
  return {};
}

// Row tiles, unless dimension 0 is the op's axis or there are more operands than bits.
Tiling tiling_beside(const OpTypes& types, const Shape& whole) {
  const size_t inputs = types.inputs.size(), outputs = types.outputs.size();
  if (concat_axis(*types.attrs, whole.rank()) == 0 || whole[0] <= 1 || inputs > 31 || outputs > 31)
    return {};
  return {whole[0], (1u << inputs) - 1, (1u << outputs) - 1};
}

// The gradient is a Split. Its sizes are computed by Shape nodes, which become constants where the
// sizes are known.
Status concat_gradient(GradientContext& ctx) {
  const auto inputs = static_cast<int>(ctx.node().inputs.size());
  if (inputs == 1) {
    ctx.set_grad(0, ctx.grad(0));
    return {};
  }
  const int rank = ctx.type(ctx.input(0)).shape.rank();
  const int axis = concat_axis(ctx.node().attrs, rank);
  std::vector<ValueId> sizes;
  for (int i = 0; i < inputs; ++i) {
    sizes.push_back(
        ctx.emit("Shape", {ctx.input(i)}, {{"start", int64_t{axis}}, {"end", int64_t{axis} + 1}}));
  }
  const ValueId split = ctx.emit("Concat", sizes, {{"axis", int64_t{0}}});
  const auto parts = ctx.emit_n("Split", {ctx.grad(0), split}, {{"axis", int64_t{axis}}}, inputs);
  for (int i = 0; i < inputs; ++i) ctx.set_grad(i, parts[static_cast<size_t>(i)]);
  return {};
}

// The sizes come from input 1, or from an even cut of the axis. The result is a new symbol where
// neither is known.
Status infer_split(InferContext& ctx) {
  const SymbolicShape& in = ctx.shape(0);
  LEAT_ASSIGN_OR_RETURN(const int axis,
                        normalize_axis(ctx, attr_int(ctx.attrs(), "axis"), in.rank()));
  const int outputs = ctx.outputs();
  const auto size = constant_of(in[axis]);
  if (has_attr(ctx.attrs(), "num_outputs") && attr_int(ctx.attrs(), "num_outputs") != outputs) {
    return ctx.error(cat("num_outputs: expected ", outputs, " as there are outputs, received ",
                         attr_int(ctx.attrs(), "num_outputs")));
  }
  std::vector<int64_t> sizes;
  if (ctx.has_input(1)) {
    const auto given = known_ints(ctx, 1);
    if (given) {
      sizes = *given;
      int64_t sum = 0;
      const bool wrong = std::any_of(sizes.begin(), sizes.end(), [&](int64_t s) {
        return s < 0 || __builtin_add_overflow(sum, s, &sum);
      });
      if (static_cast<int>(sizes.size()) != outputs || wrong || (size && sum != *size)) {
        return ctx.error(cat("split: expected ", outputs, " sizes >= 0 that add up to axis ", axis,
                             " of ", ctx.text(in), ", received [", join(sizes, ","), "]"));
      }
    }
  } else if (size) {
    const int64_t chunk = (*size + outputs - 1) / outputs;  // the last chunk may be smaller
    for (int i = 0; i < outputs; ++i)
      sizes.push_back(std::clamp<int64_t>(*size - i * chunk, 0, chunk));
  }
  for (int i = 0; i < outputs; ++i) {
    SymbolicShape out = in;
    // The size is known, or a symbol with a factor that divides evenly, or else a new symbol.
    if (!sizes.empty()) {
      out.set(axis, Dim::of(sizes[static_cast<size_t>(i)]));
    } else if (!ctx.has_input(1) && in[axis].factor % outputs == 0) {
      out.set(axis, Dim::of_symbol(in[axis].symbol, in[axis].factor / outputs));
    } else {
      out.set(axis, Dim::of_symbol(ctx.fresh_symbol()));
    }
    if (ctx.wants_output(i)) ctx.set_tensor(i, ctx.dtype(0), out);
  }
  return {};
}

// Input 1 is a list of sizes and never of rows.
Tiling split_tiling(const OpTypes& types) {
  Tiling tiling = tiling_beside(types, types.inputs[0].shape);
  if (tiling.rows > 0) tiling.row_inputs = 1;
  return tiling;
}

// The gradient is a Concat. An output without a gradient contributes zeros of its shape.
Status split_gradient(GradientContext& ctx) {
  const int axis = concat_axis(ctx.node().attrs, ctx.type(ctx.input(0)).shape.rank());
  const Tensor zero = Tensor::scalar_of(ctx.type(ctx.input(0)).dtype, 0).reshaped({1});
  std::vector<ValueId> parts;
  for (int i = 0; i < static_cast<int>(ctx.node().outputs.size()); ++i) {
    ValueId part = ctx.grad(i);
    if (part == kNone) {  // no node reads that output
      const ValueId y = ctx.optional_output(i);
      part = ctx.emit("ConstantOfShape", {ctx.emit("Shape", {y})}, {{"value", zero}});
    }
    parts.push_back(part);
  }
  ctx.set_grad(0, ctx.emit("Concat", parts, {{"axis", int64_t{axis}}}));
  return {};
}

std::vector<ShardingRule> shard_concat(const std::vector<OperandType>& inputs,
                                       const std::vector<OperandType>&, const Attrs& attrs) {
  const int rank = inputs[0].shape.rank();
  return shard_beside(inputs.size(), 1, rank, concat_axis(attrs, rank));
}

std::vector<ShardingRule> shard_split(const std::vector<OperandType>& inputs,
                                      const std::vector<OperandType>& outputs, const Attrs& attrs) {
  const int rank = inputs[0].shape.rank();
  return with_whole_operands(shard_beside(1, outputs.size(), rank, concat_axis(attrs, rank)),
                             inputs.size());
}

// The shape is a numpy broadcast of both: Expand may keep an axis that the target has as 1.
Status infer_expand(InferContext& ctx) {
  const SymbolicShape& in = ctx.shape(0);
  LEAT_ASSIGN_OR_RETURN(const int length, vector_length(ctx, 1));
  const auto sizes = known_sizes(ctx, 1);
  if (!sizes) {
    LEAT_ASSIGN_OR_RETURN(const SymbolicShape shape, fresh_shape(ctx, std::max(in.rank(), length)));
    ctx.set_tensor(0, ctx.dtype(0), shape);
    return {};
  }
  LEAT_ASSIGN_OR_RETURN(const SymbolicShape target, shape_of(ctx, *sizes, "shape"));
  const auto shape = broadcast(ctx, in, target);
  if (!shape) {
    return ctx.error(cat("expected a shape that ", ctx.text(in), " broadcasts with, received ",
                         ctx.text(target)));
  }
  ctx.set_tensor(0, ctx.dtype(0), *shape);
  return {};
}

Status expand_gradient(GradientContext& ctx) {
  ctx.set_grad(0, ctx.unbroadcast(ctx.grad(0), ctx.input(0)));
  return {};
}

// No split is offered: the operand `shape` names the sizes of the whole output, and a shard would
// need other ones.
std::vector<ShardingRule> shard_expand(const std::vector<OperandType>& inputs,
                                       const std::vector<OperandType>& outputs, const Attrs&) {
  return with_whole_operands(
      {{{Spread::sum()}, std::vector<Spread>(outputs.size(), Spread::sum())}}, inputs.size());
}

// Output size d is input size d times repeats[d]; all sizes are new symbols if the repeats are not
// known.
Status infer_tile(InferContext& ctx) {
  const SymbolicShape& in = ctx.shape(0);
  const auto repeats = known_sizes(ctx, 1);
  LEAT_ASSIGN_OR_RETURN(const int length, vector_length(ctx, 1));
  if (length != in.rank()) {
    return ctx.error(
        cat("repeats: expected one for each axis of ", ctx.text(in), ", received ", length));
  }
  LEAT_ASSIGN_OR_RETURN(SymbolicShape out, fresh_shape(ctx, repeats ? 0 : in.rank()));
  for (int d = 0; repeats && d < in.rank(); ++d) {
    const std::optional<Dim> times = (*repeats)[static_cast<size_t>(d)];
    if (times && times->factor < 0)
      return ctx.error(cat("repeats: expected numbers >= 0, received ", times->factor));
    const auto size = times ? multiply(in[d], *times) : std::nullopt;
    if (!size && times && times->is_constant())
      return ctx.error(cat("repeats: ", times->factor, " times ", ctx.text(in), " is too large"));
    out.push_back(size ? *size : Dim::of_symbol(ctx.fresh_symbol()));
  }
  ctx.set_tensor(0, ctx.dtype(0), out);
  return {};
}

// Each repeated axis becomes two axes, and the gradient sums over the outer one.
Status tile_gradient(GradientContext& ctx) {
  const ValueId x = ctx.input(0);
  const SymbolicShape &in = ctx.type(x).shape, &out = ctx.type(ctx.output(0)).shape;
  if (!in.is_constant() || !out.is_constant()) {
    return ctx.error("its gradient needs sizes that are known at compile time");
  }
  // [n * size] is viewed as [n, size] for each repeated axis. `summed` has the new axes of size n.
  TransposeAxes sizes, summed;
  for (int d = 0; d < in.rank(); ++d) {
    if (in[d].factor > 0 && out[d].factor != in[d].factor) {
      summed.push_back(static_cast<int64_t>(sizes.size()));
      sizes.push_back(out[d].factor / in[d].factor);
    }
    sizes.push_back(in[d].factor);
  }
  if (sizes.size() > kMaxRank)
    return ctx.error(
        cat("its gradient needs rank ", sizes.size(), ", at most ", kMaxRank, " is possible"));
  ValueId grad = ctx.grad(0);
  if (!summed.empty()) {
    const auto ints = [&](const TransposeAxes& v) {
      return ctx.constant(Tensor::of<int64_t>({static_cast<int64_t>(v.size())}, v));
    };
    grad = ctx.emit("Reshape", {grad, ints(sizes)}, {{"allowzero", int64_t{1}}});
    grad = ctx.emit("ReduceSum", {grad, ints(summed)}, {{"keepdims", int64_t{0}}});
  }
  ctx.set_grad(0, reshape_to(ctx, grad, x));
  return {};
}

}  // namespace

void register_movement_ops(Catalogue& catalogue) {
  catalogue.add(Op("Transpose", 13)
                    .input("data", "T")
                    .output("transposed", "T")
                    .type("T", kStoredTypes)
                    .attr_optional("perm", "ints")
                    .moves()
                    .infer(infer_transpose)
                    .gradient(transpose_gradient)
                    .sharding(shard_transpose)
                    .tiling(transpose_tiling));
  catalogue.add(Op("Concat", 13)
                    .variadic_input("inputs", "T")
                    .output("concat_result", "T")
                    .type("T", kStoredTypes)
                    .attr_required("axis", "int")
                    .moves()
                    .infer(infer_concat)
                    .gradient(concat_gradient)
                    .sharding(shard_concat)
                    .tiling([](const OpTypes& types) {
                      return tiling_beside(types, types.outputs[0].shape);
                    }));
  catalogue.add(Op("Split", 18)
                    .input("input", "T")
                    .optional_input("split", "int64")
                    .variadic_output("outputs", "T")
                    .type("T", kStoredTypes)
                    .attr("axis", int64_t{0})
                    .attr_optional("num_outputs", "int")
                    .moves()
                    .infer(infer_split)
                    .gradient(split_gradient)
                    .sharding(shard_split)
                    .tiling(split_tiling));
  catalogue.add(
      Op("Expand", 13)
          .input("input", "T")
          .input("shape", "int64")
          .output("output", "T")
          .type("T", kStoredTypes)
          .moves()
          .infer(infer_expand)
          .gradient(expand_gradient)
          .sharding(shard_expand)
          .tiling([](const OpTypes& types) { return elementwise_tiling(only_input(types)); }));
  catalogue.add(Op("Tile", 13)
                    .input("input", "T")
                    .input("repeats", "int64")
                    .output("output", "T")
                    .type("T", kStoredTypes)
                    .moves()
                    .infer(infer_tile)
                    .gradient(tile_gradient));
}

}  // namespace leat
