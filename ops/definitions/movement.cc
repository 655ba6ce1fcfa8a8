// Ops that move elements: Transpose, Concat, Split, Expand, Tile.
#include <algorithm>
#include <numeric>

#include "devices/base/text.h"
#include "ops/cpu/copy.h"
#include "ops/cpu/elementwise_loops.h"
#include "ops/definitions/definitions.h"
#include "ops/definitions/elementwise.h"
#include "ops/definitions/shapes.h"

namespace leat {
namespace {

using Axes = std::vector<int64_t>;

// --- Transpose -------------------------------------------------------------------------------

// Output axis d is input axis perm[d]; the default turns them round.
Axes permutation(const Attrs& attrs, int rank) {
  Axes perm = attr_ints(attrs, "perm");
  if (perm.empty()) {
    for (int d = rank - 1; d >= 0; --d) perm.push_back(d);
  }
  return perm;
}

Status infer_transpose(InferContext& ctx) {
  const SymbolicShape& in = ctx.shape(0);
  const Axes perm = permutation(ctx.attrs(), in.rank());
  Axes sorted = perm, all(static_cast<size_t>(in.rank()));
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

Result<std::unique_ptr<Kernel>> make_transpose(const KernelSetup& setup) {
  const Shape& out = setup.output(0).shape;
  const Axes perm = permutation(setup.attrs(), out.rank());
  const auto in_steps = row_major_steps(setup.input(0).shape), out_steps = row_major_steps(out);
  StridedCopy copy;
  for (int d = 0; d < out.rank(); ++d) {
    const auto k = static_cast<size_t>(d);
    copy.add_axis(out[d], in_steps[static_cast<size_t>(perm[k])], out_steps[k]);
  }
  const bool rows = out.rank() > 0 && perm[0] == 0 && out[0] > 1;
  return make_copy_kernel(setup, {{copy}, rows ? out[0] : 0});
}

Tiling transpose_tiling(const OpTypes& types) {
  const Shape& out = types.outputs[0].shape;
  const Axes perm = permutation(*types.attrs, out.rank());
  if (out.rank() == 0 || perm[0] != 0 || out[0] <= 1) return {};
  return {out[0], 1, 1};
}

Status transpose_gradient(GradientContext& ctx) {
  const Axes perm = permutation(ctx.node().attrs, ctx.type(ctx.input(0)).shape.rank());
  Axes inverse(perm.size());
  for (size_t d = 0; d < perm.size(); ++d)
    inverse[static_cast<size_t>(perm[d])] = static_cast<int64_t>(d);
  ctx.set_grad(0, ctx.emit("Transpose", {ctx.grad(0)}, {{"perm", inverse}}));
  return {};
}

std::vector<ShardingRule> shard_transpose(const std::vector<OperandType>& inputs,
                                          const std::vector<OperandType>&, const Attrs& attrs) {
  const Axes perm = permutation(attrs, inputs[0].shape.rank());
  std::vector<ShardingRule> rules;
  for (size_t d = 0; d < perm.size(); ++d) {
    rules.push_back({{Spread::on(static_cast<int>(perm[d]))}, {Spread::on(static_cast<int>(d))}});
  }
  rules.push_back({{Spread::sum()}, {Spread::sum()}});
  return rules;
}

// --- Concat and Split ------------------------------------------------------------------------

// Axes but `axis` go through whole: one rule for each, the same for all operands; and sums of
// parts.
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

int axis_of(const Attrs& attrs, int rank) {
  const int64_t axis = attr_int(attrs, "axis");
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

Status infer_concat(InferContext& ctx) {
  SymbolicShape out = ctx.shape(0);
  LEAT_ASSIGN_OR_RETURN(const int axis,
                        normalize_axis(ctx, attr_int(ctx.attrs(), "axis"), out.rank()));
  Dim total = out[axis];
  for (int i = 1; i < ctx.inputs(); ++i) {
    const SymbolicShape& shape = ctx.shape(i);
    bool fits = shape.rank() == out.rank();
    for (int d = 0; fits && d < out.rank(); ++d) {
      if (d == axis || shape[d] == out[d]) continue;
      fits = !shape[d].is_constant() || !out[d].is_constant();  // a symbol may turn out equal
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

// The part of a larger shape that begins at `begin` on `axis` and has the sizes of `part`.
StridedCopy part_copy(const Shape& part, const Shape& whole, int axis, int64_t begin,
                      bool part_is_input) {
  const auto part_steps = row_major_steps(part), whole_steps = row_major_steps(whole);
  StridedCopy copy;
  for (int d = 0; d < part.rank(); ++d) {
    const auto k = static_cast<size_t>(d);
    copy.add_axis(part[d], part_is_input ? part_steps[k] : whole_steps[k],
                  part_is_input ? whole_steps[k] : part_steps[k]);
  }
  (part_is_input ? copy.out_offset : copy.in_offset) =
      begin * whole_steps[static_cast<size_t>(axis)];
  return copy;
}

Result<std::unique_ptr<Kernel>> make_concat(const KernelSetup& setup) {
  const Shape& out = setup.output(0).shape;
  const int axis = axis_of(setup.attrs(), out.rank());
  CopyPlan plan;
  int64_t begin = 0;
  for (size_t i = 0; i < setup.types.inputs.size(); ++i) {
    const Shape& part = setup.types.inputs[i].shape;
    plan.copies.push_back(part_copy(part, out, axis, begin, true));
    plan.copies.back().input = static_cast<int>(i);
    begin += part[axis];
  }
  if (axis != 0 && out[0] > 1) plan.rows = out[0];
  return make_copy_kernel(setup, std::move(plan));
}

// Rows, unless dimension 0 is the axis or there are more operands than bits.
Tiling tiling_beside(const OpTypes& types, const Shape& whole) {
  const size_t inputs = types.inputs.size(), outputs = types.outputs.size();
  if (axis_of(*types.attrs, whole.rank()) == 0 || whole[0] <= 1 || inputs > 31 || outputs > 31)
    return {};
  return {whole[0], (1u << inputs) - 1, (1u << outputs) - 1};
}

Status concat_gradient(GradientContext& ctx) {
  const auto inputs = static_cast<int>(ctx.node().inputs.size());
  if (inputs == 1) {
    ctx.set_grad(0, ctx.grad(0));
    return {};
  }
  const int rank = ctx.type(ctx.input(0)).shape.rank();
  const int axis = axis_of(ctx.node().attrs, rank);
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
      const int64_t sum = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
      const bool negative =
          std::any_of(sizes.begin(), sizes.end(), [](int64_t s) { return s < 0; });
      if (static_cast<int>(sizes.size()) != outputs || negative || (size && sum != *size)) {
        return ctx.error(cat("split: expected ", outputs, " sizes >= 0 that add up to axis ", axis,
                             " of ", ctx.text(in), ", received [", join(sizes, ","), "]"));
      }
    }
  } else if (size) {
    const int64_t chunk = (*size + outputs - 1) / outputs;  // the last one may be smaller
    for (int i = 0; i < outputs; ++i)
      sizes.push_back(std::clamp<int64_t>(*size - i * chunk, 0, chunk));
  }
  for (int i = 0; i < outputs; ++i) {
    SymbolicShape out = in;
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

// Where output i begins on the axis: the sizes come from the types, or, where an output is not
// wanted and its type not there, from the rule by which they were inferred.
Result<std::unique_ptr<Kernel>> make_split(const KernelSetup& setup) {
  const Shape& in = setup.input(0).shape;
  const int axis = axis_of(setup.attrs(), in.rank());
  const auto outputs = static_cast<int64_t>(setup.types.outputs.size());
  const auto given = known_ints(setup, 1);
  const int64_t chunk = (in[axis] + outputs - 1) / outputs;
  CopyPlan plan;
  int64_t begin = 0;
  for (size_t i = 0; i < setup.types.outputs.size(); ++i) {
    const OperandType& out = setup.types.outputs[i];
    if (out.present) {
      plan.copies.push_back(part_copy(out.shape, in, axis, begin, false));
      plan.copies.back().output = static_cast<int>(i);
      begin += out.shape[axis];
    } else {
      begin += given ? (*given)[i] : std::clamp<int64_t>(in[axis] - begin, 0, chunk);
    }
  }
  if (axis != 0 && in[0] > 1) plan.rows = in[0];
  KernelSetup any = setup;  // output 0 may be the one that is not there
  any.types.outputs[0].dtype = setup.input(0).dtype;
  return make_copy_kernel(any, std::move(plan));
}

Tiling split_tiling(const OpTypes& types) {
  Tiling tiling = tiling_beside(types, types.inputs[0].shape);
  if (tiling.rows > 0) tiling.row_inputs = 1;
  return tiling;
}

Status split_gradient(GradientContext& ctx) {
  const int axis = axis_of(ctx.node().attrs, ctx.type(ctx.input(0)).shape.rank());
  const Tensor zero = Tensor::scalar_of(ctx.type(ctx.input(0)).dtype, 0).reshaped({1});
  std::vector<ValueId> parts;
  for (int i = 0; i < static_cast<int>(ctx.node().outputs.size()); ++i) {
    ValueId part = ctx.grad(i);
    if (part == kNone) {  // nobody reads that output
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
  return shard_beside(inputs.size(), 1, rank, axis_of(attrs, rank));
}

std::vector<ShardingRule> shard_split(const std::vector<OperandType>& inputs,
                                      const std::vector<OperandType>& outputs, const Attrs& attrs) {
  const int rank = inputs[0].shape.rank();
  return with_whole_operands(shard_beside(1, outputs.size(), rank, axis_of(attrs, rank)),
                             inputs.size());
}

// --- Expand and Tile -------------------------------------------------------------------------

struct SameOf {
  template <typename T>
  LEAT_INLINE static T apply(T a, const double*) {
    return a;
  }
};

OpTypes first_input(const OpTypes& types) {
  OpTypes first = types;
  first.inputs.resize(1);
  return first;
}

Status infer_expand(InferContext& ctx) {
  const SymbolicShape& in = ctx.shape(0);
  LEAT_ASSIGN_OR_RETURN(const int length, vector_length(ctx, 1));
  const auto sizes = known_ints(ctx, 1);
  if (!sizes) {
    LEAT_ASSIGN_OR_RETURN(const SymbolicShape shape, fresh_shape(ctx, std::max(in.rank(), length)));
    ctx.set_tensor(0, ctx.dtype(0), shape);
    return {};
  }
  const auto target = Shape::checked(*sizes);
  const auto shape = target ? broadcast(in, SymbolicShape(*target)) : std::nullopt;
  if (!shape) {
    return ctx.error(cat("expected a shape that ", ctx.text(in), " broadcasts with, received [",
                         join(*sizes, ","), "]"));
  }
  ctx.set_tensor(0, ctx.dtype(0), *shape);
  return {};
}

Result<std::unique_ptr<Kernel>> make_expand(const KernelSetup& setup) {
  KernelSetup one = setup;
  one.types = first_input(setup.types);
  return make_elementwise(one, dispatch_dtype(setup.output(0).dtype, [](auto tag) -> Loop {
                            return elementwise::unary_loop<SameOf, decltype(tag)>;
                          }));
}

Status expand_gradient(GradientContext& ctx) {
  ctx.set_grad(0, ctx.unbroadcast(ctx.grad(0), ctx.input(0)));
  return {};
}

std::vector<ShardingRule> shard_expand(const std::vector<OperandType>& inputs,
                                       const std::vector<OperandType>& outputs, const Attrs&) {
  return with_whole_operands(
      {{{Spread::sum()}, std::vector<Spread>(outputs.size(), Spread::sum())}}, inputs.size());
}

Status infer_tile(InferContext& ctx) {
  const SymbolicShape& in = ctx.shape(0);
  const auto repeats = known_ints(ctx, 1);
  LEAT_ASSIGN_OR_RETURN(const int length, vector_length(ctx, 1));
  if (length != in.rank()) {
    return ctx.error(
        cat("repeats: expected one for each axis of ", ctx.text(in), ", received ", length));
  }
  LEAT_ASSIGN_OR_RETURN(SymbolicShape out, fresh_shape(ctx, repeats ? 0 : in.rank()));
  for (int d = 0; repeats && d < in.rank(); ++d) {
    const int64_t times = (*repeats)[static_cast<size_t>(d)];
    const auto size = multiply(in[d], Dim::of(times));
    if (times < 0 || !size)
      return ctx.error(cat("repeats: expected sizes >= 0, received [", join(*repeats, ","), "]"));
    out.push_back(*size);
  }
  ctx.set_tensor(0, ctx.dtype(0), out);
  return {};
}

// Each axis of the output is one of repeats over one of the input.
Result<std::unique_ptr<Kernel>> make_tile(const KernelSetup& setup) {
  const Shape &in = setup.input(0).shape, &out = setup.output(0).shape;
  const auto in_steps = row_major_steps(in), out_steps = row_major_steps(out);
  StridedCopy copy;
  for (int d = 0; d < in.rank(); ++d) {
    const auto k = static_cast<size_t>(d);
    copy.add_axis(in[d] == 0 ? 0 : out[d] / in[d], 0, out_steps[k] * in[d]);
    copy.add_axis(in[d], in_steps[k], out_steps[k]);
  }
  return make_copy_kernel(setup, {{copy}});
}

// Axes that repeat become two, of which the outer is summed away.
Status tile_gradient(GradientContext& ctx) {
  const ValueId x = ctx.input(0);
  const SymbolicShape &in = ctx.type(x).shape, &out = ctx.type(ctx.output(0)).shape;
  if (!in.is_constant() || !out.is_constant()) {
    return ctx.error("its gradient needs sizes that are known at compile time");
  }
  Axes sizes, summed;
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
    const auto ints = [&](const Axes& v) {
      return ctx.constant(Tensor::of<int64_t>({static_cast<int64_t>(v.size())}, v));
    };
    grad = ctx.emit("Reshape", {grad, ints(sizes)});
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
                    .type("T", kAllTypes)
                    .attr_optional("perm", "ints")
                    .infer(infer_transpose)
                    .gradient(transpose_gradient)
                    .sharding(shard_transpose)
                    .tiling(transpose_tiling)
                    .kernel("cpu", make_transpose));
  catalogue.add(
      Op("Concat", 13)
          .variadic_input("inputs", "T")
          .output("concat_result", "T")
          .type("T", kAllTypes)
          .attr_required("axis", "int")
          .infer(infer_concat)
          .gradient(concat_gradient)
          .sharding(shard_concat)
          .tiling([](const OpTypes& types) { return tiling_beside(types, types.outputs[0].shape); })
          .kernel("cpu", make_concat));
  catalogue.add(Op("Split", 18)
                    .input("input", "T")
                    .optional_input("split", "int64")
                    .variadic_output("outputs", "T")
                    .type("T", kAllTypes)
                    .attr("axis", int64_t{0})
                    .attr_optional("num_outputs", "int")
                    .infer(infer_split)
                    .gradient(split_gradient)
                    .sharding(shard_split)
                    .tiling(split_tiling)
                    .kernel("cpu", make_split));
  catalogue.add(
      Op("Expand", 13)
          .input("input", "T")
          .input("shape", "int64")
          .output("output", "T")
          .type("T", kAllTypes)
          .infer(infer_expand)
          .gradient(expand_gradient)
          .sharding(shard_expand)
          .tiling([](const OpTypes& types) { return elementwise_tiling(first_input(types)); })
          .kernel("cpu", make_expand));
  catalogue.add(Op("Tile", 13)
                    .input("input", "T")
                    .input("repeats", "int64")
                    .output("output", "T")
                    .type("T", kAllTypes)
                    .infer(infer_tile)
                    .gradient(tile_gradient)
                    .kernel("cpu", make_tile));
}

}  // namespace leat
