#include <algorithm>

#include "devices/base/text.h"
#include "ops/definitions/definitions.h"
#include "ops/definitions/reduce_shape.h"

namespace leat {

std::string_view reduction_name(Reduction reduction) {
  static constexpr std::string_view kNames[] = {"sum",  "mean",       "max", "min",
                                                "prod", "sum_square", "l1",  "l2"};
  return kNames[static_cast<int>(reduction)];
}

namespace {

Status infer_reduce(InferContext& ctx) {
  LEAT_ASSIGN_OR_RETURN(const AxisSet axes, reduced_axes(ctx, 1, ctx.shape(0).rank()));
  ctx.set_tensor(0, ctx.dtype(0),
                 reduced_shape(ctx.shape(0), axes, attr_int(ctx.attrs(), "keepdims") != 0));
  return {};
}

// Inputs: dy, x, y (the result of some reductions), axes. The result has the type of x.
Status infer_reduce_grad(InferContext& ctx) {
  const std::string name = attr_string(ctx.attrs(), "reduction");
  bool known = false;
  for (int i = 0; i <= static_cast<int>(Reduction::l2); ++i)
    known |= reduction_name(static_cast<Reduction>(i)) == name;
  if (!known)
    return ctx.error(
        cat("reduction: expected sum, mean, max, min, prod, sum_square, l1 or l2, received '", name,
            "'"));
  // Max and min compare x with the result, and l2 divides by it. For prod, the operand shows
  // tile_grad_rows() that the op counts over a whole reduction.
  const bool reads_result = name == "max" || name == "min" || name == "prod" || name == "l2";
  if (reads_result && !ctx.has_input(2))
    return ctx.error(cat("y: expected the result of the ", name, ", it is absent"));
  LEAT_ASSIGN_OR_RETURN(const AxisSet axes, reduced_axes(ctx, 3, ctx.shape(1).rank()));
  const SymbolicShape expected =
      reduced_shape(ctx.shape(1), axes, attr_int(ctx.attrs(), "keepdims") != 0);
  // dy and y must have the shape that the reduction of x has.
  for (int i : {0, 2}) {
    if (!ctx.has_input(i) || ctx.shape(i) == expected) continue;
    if (!ctx.shape(i).is_constant() || !expected.is_constant())
      continue;  // checked again when the kernel is made
    return ctx.error(cat(i == 0 ? "dy" : "y", ": expected shape ", ctx.text(expected),
                         ", received ", ctx.text(ctx.shape(i))));
  }
  ctx.set_output(0, ctx.input(1));
  return {};
}

// The gradient of every reduction is one op, so that no broadcast of dy to the shape of x is
// stored.
auto gradient_of(Reduction reduction) {
  return [reduction](GradientContext& ctx) -> Status {
    if (!ctx.needs(0)) return {};
    Attrs attrs = {{"reduction", std::string(reduction_name(reduction))}};
    // Only attributes that the node has are copied; the defaults of both ops are equal.
    for (const char* name : {"keepdims", "noop_with_empty_axes"}) {
      const auto it = ctx.node().attrs.find(name);
      if (it != ctx.node().attrs.end()) attrs.emplace(it->first, it->second);
    }
    const bool reads_result = reduction == Reduction::max || reduction == Reduction::min ||
                              reduction == Reduction::prod || reduction == Reduction::l2;
    const ValueId y = reads_result ? ctx.output(0) : kNone;
    ctx.set_grad(0, ctx.emit("leat.ReduceGrad", {ctx.grad(0), ctx.input(0), y, ctx.input(1)},
                             std::move(attrs)));
    return {};
  };
}

// The axes are not among the types, so a cut needs that all axes which fit the shapes keep axis 0.
Tiling tile_kept_rows(const OpTypes& types) {
  const bool keepdims = attr_int(*types.attrs, "keepdims", 1) != 0;
  if (!keeps_rows(types.inputs[0].shape, types.outputs[0].shape, keepdims)) return {};
  return {types.inputs[0].shape[0], 1, 1};
}

// The bits are dy (1), x (2) and y (4). If axis 0 is kept, a row of dx needs its rows of all three.
Tiling tile_grad_rows(const OpTypes& types) {
  const Shape& x = types.inputs[1].shape;
  if (x.rank() == 0) return {};
  const bool keepdims = attr_int(*types.attrs, "keepdims", 1) != 0;
  const Shape& dy = types.inputs[0].shape;
  if (keeps_rows(x, dy, keepdims)) return {x[0], types.has_input(2) ? 7u : 3u, 1};
  const auto sets = possible_axes(x, dy, keepdims);
  const bool reduces_rows =
      std::all_of(sets.begin(), sets.end(), [](AxisSet set) { return set & 1; });
  // Results that all rows share are whole. A count over all rows cannot be cut.
  if (!reduces_rows || types.has_input(2)) return {};
  return {x[0], 2, 1};
}

// A split along a kept axis gives a split result; a sum over a split axis is a partial sum.
auto sharding_of(Reduction reduction) {
  return [reduction](const std::vector<OperandType>& inputs,
                     const std::vector<OperandType>& outputs, const Attrs& attrs) {
    std::vector<ShardingRule> rules;
    const Shape &in = inputs[0].shape, &out = outputs[0].shape;
    const bool keepdims = attr_int(attrs, "keepdims", 1) != 0;
    const auto sets = possible_axes(in, out, keepdims);
    // The axes are ambiguous: a wrong guess would split the result along an axis that is not there.
    if (sets.size() != 1) return rules;
    // A mean is linear in partial sums of its input, but the means of the parts of an axis do not
    // add up to the mean. Squares and absolute values are the other way round.
    const bool linear = reduction == Reduction::sum || reduction == Reduction::mean;
    const bool additive = reduction == Reduction::sum || reduction == Reduction::sum_square ||
                          reduction == Reduction::l1;
    const auto add = [&](Spread from, Spread to) {
      std::vector<Spread> spreads(inputs.size());
      spreads[0] = from;
      rules.push_back({spreads, {to}});
    };
    int kept = 0;
    for (int axis = 0; axis < in.rank(); ++axis) {
      const bool reduced = sets[0] >> axis & 1;
      if (!reduced)
        add(Spread::on(axis), Spread::on(keepdims ? axis : kept));
      else if (additive)
        add(Spread::on(axis), Spread::sum());
      if (!reduced) ++kept;
    }
    if (linear) add(Spread::sum(), Spread::sum());
    return rules;
  };
}

Op reduce_op(const char* name, int since, Reduction reduction, DTypeSet types) {
  return Op(name, since)
      .input("data", "T")
      .optional_input("axes", "int64")
      .output("reduced", "T")
      .attr("keepdims", int64_t{1})
      .attr("noop_with_empty_axes", int64_t{0})
      .type("T", types)
      .infer(infer_reduce)
      .gradient(gradient_of(reduction))
      .sharding(sharding_of(reduction))
      .tiling(tile_kept_rows);
}

Op reduce_grad_op() {
  return Op("leat.ReduceGrad")
      .input("dy", "T")
      .input("x", "T")
      .optional_input("y", "T")
      .optional_input("axes", "int64")
      .output("dx", "T")
      .attr_required("reduction", "string")
      .attr("keepdims", int64_t{1})
      .attr("noop_with_empty_axes", int64_t{0})
      .type("T", kFloats)
      .infer(infer_reduce_grad)
      .tiling(tile_grad_rows);
}

// An empty axis has no largest element, so it is refused where its size is known.
Status infer_arg(InferContext& ctx) {
  const SymbolicShape& shape = ctx.shape(0);
  LEAT_ASSIGN_OR_RETURN(const int axis,
                        normalize_axis(ctx, attr_int(ctx.attrs(), "axis"), shape.rank()));
  if (shape[axis] == Dim::of(0))
    return ctx.error(
        cat("axis ", axis, ": expected at least one element, received shape ", ctx.text(shape)));
  ctx.set_tensor(0, DType::i64,
                 reduced_shape(shape, AxisSet{1} << axis, attr_int(ctx.attrs(), "keepdims") != 0));
  return {};
}

int arg_axis(const OpTypes& types) {
  const int64_t axis = attr_int(*types.attrs, "axis");
  return static_cast<int>(axis < 0 ? axis + types.inputs[0].shape.rank() : axis);
}

Op arg_op(const char* name) {
  return Op(name, 13)
      .input("data", "T")
      .output("reduced", "int64")
      .attr("axis", int64_t{0})
      .attr("keepdims", int64_t{1})
      .attr("select_last_index", int64_t{0})
      .type("T", kNumbers)
      .infer(infer_arg)
      .sharding([](const std::vector<OperandType>& inputs, const std::vector<OperandType>& outputs,
                   const Attrs& attrs) {
        OpTypes types{inputs, outputs, &attrs};
        const int axis = arg_axis(types);
        const bool keepdims = attr_int(attrs, "keepdims", 1) != 0;
        std::vector<ShardingRule> rules;
        for (int i = 0; i < inputs[0].shape.rank(); ++i) {
          if (i != axis)
            rules.push_back({{Spread::on(i)}, {Spread::on(!keepdims && i > axis ? i - 1 : i)}});
        }
        return rules;
      })
      .tiling([](const OpTypes& types) -> Tiling {
        if (arg_axis(types) == 0) return {};
        return {types.inputs[0].shape[0], 1, 1};
      });
}

}  // namespace

void register_reduce_ops(Catalogue& catalogue) {
  catalogue.add(reduce_op("ReduceSum", 13, Reduction::sum, kNumbers));
  catalogue.add(reduce_op("ReduceMean", 18, Reduction::mean, kNumbers));
  catalogue.add(reduce_op("ReduceMax", 20, Reduction::max, kAllTypes));
  catalogue.add(reduce_op("ReduceMin", 20, Reduction::min, kAllTypes));
  catalogue.add(reduce_op("ReduceProd", 18, Reduction::prod, kNumbers));
  catalogue.add(reduce_op("ReduceSumSquare", 18, Reduction::sum_square, kNumbers));
  catalogue.add(reduce_op("ReduceL1", 18, Reduction::l1, kNumbers));
  catalogue.add(reduce_op("ReduceL2", 18, Reduction::l2, kNumbers));
  catalogue.add(reduce_grad_op());
  catalogue.add(arg_op("ArgMax"));
  catalogue.add(arg_op("ArgMin"));
}

}  // namespace leat
