// Ops that read by index: Gather, GatherElements, ReadRows, OneHot, and their gradients.
#include "ops/definitions/gather.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "devices/base/text.h"
#include "ops/definitions/definitions.h"
#include "ops/definitions/shapes.h"
#include "ops/definitions/variable.h"

namespace leat {
namespace {

// --- Gather ----------------------------------------------------------------------------------

// The indexed axis is replaced with the axes of the indices. Indices are checked when a step runs.
Status infer_gather(InferContext& ctx) {
  const SymbolicShape &data = ctx.shape(0), &indices = ctx.shape(1);
  LEAT_ASSIGN_OR_RETURN(const int axis,
                        normalize_axis(ctx, attr_int(ctx.attrs(), "axis"), data.rank()));
  if (data.rank() - 1 + indices.rank() > kMaxRank) {
    return ctx.error(cat("expected rank at most ", kMaxRank, ", data is ", ctx.text(data),
                         ", indices are ", ctx.text(indices)));
  }
  SymbolicShape out;
  for (int d = 0; d < axis; ++d) out.push_back(data[d]);
  for (Dim dim : indices.dims()) out.push_back(dim);
  for (int d = axis + 1; d < data.rank(); ++d) out.push_back(data[d]);
  ctx.set_tensor(0, ctx.dtype(0), out);
  return {};
}

// Tiles of rows of the indices if they index axis 0, else of rows of the data.
Tiling gather_tiling(const OpTypes& types) {
  const Shape &data = types.inputs[0].shape, &indices = types.inputs[1].shape,
              &out = types.outputs[0].shape;
  const bool first = gather_axis(*types.attrs, data.rank()) == 0;
  if (out.rank() == 0 || out[0] <= 1 || (first && indices.rank() == 0)) return {};
  return {out[0], first ? 2u : 1u, 1};
}

// --- ReadRows: a Gather of a variable along axis 0 that reads only these rows -------------------

Status infer_read_rows(InferContext& ctx) {
  LEAT_RETURN_IF_ERROR(expect_equal_variables(ctx, 1));
  return infer_gather(ctx);
}

// A split of the ids is a split of the output along the same axis; the variable is never split.
std::vector<ShardingRule> shard_read_rows(const std::vector<OperandType>& inputs,
                                          const std::vector<OperandType>&, const Attrs&) {
  std::vector<ShardingRule> rules;
  for (int d = 0; d < inputs[1].shape.rank(); ++d)
    rules.push_back({{Spread{}, Spread::on(d)}, {Spread::on(d)}});
  return rules;
}

// Inputs: dy, the indices, and a shape or a value of the shape of the data.
Status infer_gather_grad(InferContext& ctx) {
  LEAT_ASSIGN_OR_RETURN(const SymbolicShape data, infer_shape_or_like(ctx, 2));
  const SymbolicShape &dy = ctx.shape(0), &indices = ctx.shape(1);
  LEAT_ASSIGN_OR_RETURN(const int axis,
                        normalize_axis(ctx, attr_int(ctx.attrs(), "axis"), data.rank()));
  bool fits = dy.rank() == data.rank() - 1 + indices.rank();
  const auto same = [](Dim a, Dim b) { return a == b || !a.is_constant() || !b.is_constant(); };
  for (int d = 0; fits && d < dy.rank(); ++d) {
    const bool of_indices = d >= axis && d < axis + indices.rank();
    const Dim expected =
        of_indices ? indices[d - axis] : data[d < axis ? d : d - indices.rank() + 1];
    fits = same(dy[d], expected);
  }
  if (!fits) {
    return ctx.error(cat("a gradient of ", ctx.text(dy), " does not come from data of ",
                         ctx.text(data), " and indices of ", ctx.text(indices)));
  }
  ctx.set_tensor(0, ctx.dtype(0), data);
  return {};
}

// The gradient takes the attributes of the node, of which `axis` is the only one. Indices have
// none.
std::function<Status(GradientContext&)> gather_gradient(std::string name) {
  return [name = std::move(name)](GradientContext& ctx) -> Status {
    const ValueId shape = shape_or_like(ctx, ctx.input(0));
    ctx.set_grad(0, ctx.emit(name, {ctx.grad(0), ctx.input(1), shape}, ctx.node().attrs));
    return {};
  };
}

// The axes of the indices stand at `axis` in the output; the data's axes after it move accordingly.
// The data's own `axis` cannot be split, since an index may name any element of it.
std::vector<ShardingRule> shard_gather(const std::vector<OperandType>& inputs,
                                       const std::vector<OperandType>&, const Attrs& attrs) {
  const int rank = inputs[0].shape.rank(), indices = inputs[1].shape.rank(),
            axis = gather_axis(attrs, rank);
  std::vector<ShardingRule> rules;
  for (int d = 0; d < indices; ++d)
    rules.push_back({{Spread{}, Spread::on(d)}, {Spread::on(axis + d)}});
  for (int d = 0; d < rank; ++d) {
    if (d != axis)
      rules.push_back({{Spread::on(d), Spread{}}, {Spread::on(d < axis ? d : d - 1 + indices)}});
  }
  rules.push_back({{Spread::sum(), Spread{}}, {Spread::sum()}});
  return rules;
}

// Each shard of the batch computes a partial sum.
std::vector<ShardingRule> shard_gather_grad(const std::vector<OperandType>& inputs,
                                            const std::vector<OperandType>& outputs,
                                            const Attrs& attrs) {
  const int indices = inputs[1].shape.rank(), axis = gather_axis(attrs, outputs[0].shape.rank());
  std::vector<ShardingRule> rules;
  for (int d = 0; d < indices; ++d)
    rules.push_back({{Spread::on(axis + d), Spread::on(d), Spread{}}, {Spread::sum()}});
  rules.push_back({{Spread::sum(), Spread{}, Spread{}}, {Spread::sum()}});
  return rules;
}

// --- GatherElements --------------------------------------------------------------------------

// Each axis but the indexed one may be shorter in the indices than in the data, as in ONNX.
Status check_elements(const InferContext& ctx, const SymbolicShape& data,
                      const SymbolicShape& indices) {
  LEAT_ASSIGN_OR_RETURN(const int axis,
                        normalize_axis(ctx, attr_int(ctx.attrs(), "axis"), data.rank()));
  bool fits = indices.rank() == data.rank();
  for (int d = 0; fits && d < data.rank(); ++d) {
    const bool known = data[d].is_constant() && indices[d].is_constant();
    fits = d == axis || !known || indices[d].factor <= data[d].factor;
  }
  if (fits) return {};
  return ctx.error(cat("expected indices of data's rank and, but for axis ", axis,
                       ", no larger: data is ", ctx.text(data), ", indices are ",
                       ctx.text(indices)));
}

Status infer_gather_elements(InferContext& ctx) {
  LEAT_RETURN_IF_ERROR(check_elements(ctx, ctx.shape(0), ctx.shape(1)));
  ctx.set_tensor(0, ctx.dtype(0), ctx.shape(1));
  return {};
}

Status infer_gather_elements_grad(InferContext& ctx) {
  LEAT_ASSIGN_OR_RETURN(const SymbolicShape data, infer_shape_or_like(ctx, 2));
  LEAT_RETURN_IF_ERROR(check_elements(ctx, data, ctx.shape(1)));
  if (known_to_differ(ctx.shape(0), ctx.shape(1))) {
    return ctx.error(cat("expected a gradient of the indices' shape ", ctx.text(ctx.shape(1)),
                         ", received ", ctx.text(ctx.shape(0))));
  }
  ctx.set_tensor(0, ctx.dtype(0), data);
  return {};
}

// `values` is [off, on]. A new axis of `depth` elements is inserted at `axis`.
Status infer_one_hot(InferContext& ctx) {
  const SymbolicShape& indices = ctx.shape(0);
  if (indices.rank() + 1 > kMaxRank)
    return ctx.error(cat("expected indices of rank below ", kMaxRank));
  LEAT_ASSIGN_OR_RETURN(const int axis,
                        normalize_axis(ctx, attr_int(ctx.attrs(), "axis"), indices.rank() + 1));
  if (!(ctx.shape(2) == SymbolicShape(Shape({2})))) {
    return ctx.error(cat("values: expected two, off and on, received ", ctx.text(ctx.shape(2))));
  }
  for (Dim dim : ctx.shape(1).dims()) {
    if (!(dim == Dim::of(1)))
      return ctx.error(cat("depth: expected a scalar, received ", ctx.text(ctx.shape(1))));
  }
  const auto depth = known_ints(ctx, 1);
  if (depth && (*depth)[0] < 0)
    return ctx.error(cat("depth: expected >= 0, received ", (*depth)[0]));
  SymbolicShape out;
  for (int d = 0; d <= indices.rank(); ++d) {
    if (d == axis)
      out.push_back(depth ? Dim::of((*depth)[0]) : Dim::of_symbol(ctx.fresh_symbol()));
    else
      out.push_back(indices[d < axis ? d : d - 1]);
  }
  ctx.set_tensor(0, ctx.dtype(2), out);
  return {};
}

// `off` gets the sum of the gradients of the elements that are off, and `on` that of the others.
Status grad_one_hot(GradientContext& ctx) {
  const ValueId zero = ctx.scalar(0, ctx.type(ctx.input(2)).dtype);
  std::vector<ValueId> sums;
  for (const double of_on : {0.0, 1.0}) {
    Tensor values(DType::boolean, {2});
    values.set(0, 1 - of_on);
    values.set(1, of_on);
    const ValueId chosen = ctx.emit(
        "OneHot", {ctx.input(0), ctx.input(1), ctx.constant(std::move(values))}, ctx.node().attrs);
    // An infinite gradient of one kind of elements leaves the other's sum finite.
    const ValueId sum = ctx.emit("ReduceSum", {ctx.emit("Where", {chosen, ctx.grad(0), zero})},
                                 {{"keepdims", int64_t{0}}});
    sums.push_back(ctx.emit("Unsqueeze", {sum, ctx.constant(Tensor::of<int64_t>({1}, {0}))}));
  }
  ctx.set_grad(2, ctx.emit("Concat", sums, {{"axis", int64_t{0}}}));
  return {};
}

void add_gather_elements_ops(Catalogue& catalogue) {
  catalogue.add(Op("GatherElements", 13)
                    .input("data", "T")
                    .input("indices", "Tind")
                    .output("output", "T")
                    .type("T", kStoredTypes)
                    .type("Tind", kIndexTypes)
                    .attr("axis", int64_t{0})
                    .infer(infer_gather_elements)
                    .gradient(gather_gradient("leat.GatherElementsGrad")));
  catalogue.add(Op("leat.GatherElementsGrad")
                    .input("dY", "T")
                    .input("indices", "Tind")
                    .input("shape", "S")
                    .output("dX", "T")
                    .type("T", kFloats)
                    .type("Tind", kIndexTypes)
                    .type("S", kShapeOrLike)
                    .attr("axis", int64_t{0})
                    .infer(infer_gather_elements_grad));
  catalogue.add(Op("OneHot", 11)
                    .input("indices", "T1")
                    .input("depth", "T2")
                    .input("values", "T3")
                    .output("output", "T3")
                    .type("T1", kNumbers)
                    .type("T2", kNumbers)
                    .type("T3", kAllTypes)
                    .attr("axis", int64_t{-1})
                    .infer(infer_one_hot)
                    .gradient(grad_one_hot));
}

}  // namespace

void register_gather_ops(Catalogue& catalogue) {
  catalogue.add(Op("Gather", 13)
                    .input("data", "T")
                    .input("indices", "Tind")
                    .output("output", "T")
                    .type("T", kStoredTypes)
                    .type("Tind", kIndexTypes)
                    .attr("axis", int64_t{0})
                    .picks(0)
                    .moves()
                    .infer(infer_gather)
                    .gradient(gather_gradient("leat.GatherGrad"))
                    .sharding(shard_gather)
                    .tiling(gather_tiling));
  // The output is a copy of the rows: later writes to the variable do not change it.
  catalogue.add(Op("leat.ReadRows")
                    .input("r", "resource")
                    .input("indices", "Tind")
                    .output("output", "any")
                    .type("Tind", kIndexTypes)
                    .reads(0)
                    .picks(0)
                    .infer(infer_read_rows)
                    .sharding(shard_read_rows));
  catalogue.add(Op("leat.GatherGrad")
                    .input("dY", "T")
                    .input("indices", "Tind")
                    .input("shape", "S")
                    .output("dX", "T")
                    .type("T", kFloats)
                    .type("Tind", kIndexTypes)
                    .type("S", kShapeOrLike)
                    .attr("axis", int64_t{0})
                    .infer(infer_gather_grad)
                    .sharding(shard_gather_grad));
  add_gather_elements_ops(catalogue);
}

}  // namespace leat
