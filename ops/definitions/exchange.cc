// Gradients as a node, collectives of replicas, and transfers between devices. These ops have no
// kernels: compilation replaces Gradients and the collectives, and the runtime moves the bytes of
// Send and Receive.
#include "devices/base/text.h"
#include "ops/definitions/definitions.h"

namespace leat {
namespace {

// The gradient of an x has the type of that x. expand_gradients() replaces the node.
Status infer_gradients(InferContext& ctx) {
  if (ctx.inputs() < 2) return ctx.error("expected y and at least one x");
  if (ctx.outputs() != ctx.inputs() - 1) {
    return ctx.error(
        cat("expected one output for each x (", ctx.inputs() - 1, "), received ", ctx.outputs()));
  }
  for (int i = 0; i < ctx.outputs(); ++i) ctx.set_output(i, ctx.input(i + 1));
  return {};
}

Status infer_all_reduce(InferContext& ctx) {
  const std::string op = attr_string(ctx.attrs(), "op", "sum");
  if (op != "sum" && op != "mean" && op != "max" && op != "min") {
    return ctx.error(cat("op: expected sum, mean, max or min, received '", op, "'"));
  }
  ctx.set_output(0, ctx.input(0));
  return {};
}

// The gradient of an all-reduce sums the gradients of all replicas: it is an all-reduce again.
Status grad_all_reduce(GradientContext& ctx) {
  const std::string op = attr_string(ctx.node().attrs, "op", "sum");
  if (op != "sum" && op != "mean")
    return ctx.error(cat("AllReduce with op '", op, "' has no gradient"));
  ctx.set_grad(0, ctx.emit("leat.AllReduce", {ctx.grad(0)}, {{"op", op}}));
  return {};
}

// --- the other collectives: each node is the view of one of `replicas` replicas ------------------

Result<int64_t> replicas_of(const InferContext& ctx) {
  const int64_t replicas = attr_int(ctx.attrs(), "replicas", 1);
  if (replicas < 1) return ctx.error(cat("replicas: expected at least 1, received ", replicas));
  return replicas;
}

// Multiplies or divides the size of `axis` by the number of replicas.
Status scale_axis(InferContext& ctx, SymbolicShape& shape, std::string_view attr, bool up) {
  LEAT_ASSIGN_OR_RETURN(const int64_t replicas, replicas_of(ctx));
  LEAT_ASSIGN_OR_RETURN(const int axis,
                        normalize_axis(ctx, attr_int(ctx.attrs(), attr), shape.rank()));
  Dim dim = shape[axis];
  if (up) {
    const auto scaled = multiply(dim, Dim::of(replicas));
    if (!scaled) return ctx.error("the gathered size is too large");
    dim = *scaled;
  } else {
    if (dim.factor % replicas != 0) {
      return ctx.error(cat(attr, ": expected a size that ", replicas, " replicas divide, received ",
                           ctx.text(shape)));
    }
    dim.factor /= replicas;
  }
  shape.set(axis, dim);
  return {};
}

// Infers AllGather (up) and ReduceScatter.
template <bool up>
Status infer_along_axis(InferContext& ctx) {
  SymbolicShape shape = ctx.shape(0);
  LEAT_RETURN_IF_ERROR(scale_axis(ctx, shape, "axis", up));
  ctx.set_tensor(0, ctx.dtype(0), shape);
  return {};
}

Status infer_all_to_all(InferContext& ctx) {
  SymbolicShape shape = ctx.shape(0);
  LEAT_RETURN_IF_ERROR(scale_axis(ctx, shape, "split_axis", false));
  LEAT_RETURN_IF_ERROR(scale_axis(ctx, shape, "concat_axis", true));
  ctx.set_tensor(0, ctx.dtype(0), shape);
  return {};
}

Status infer_broadcast_from(InferContext& ctx) {
  const int64_t root = attr_int(ctx.attrs(), "root");
  if (root < 0) return ctx.error(cat("root: expected a replica's index, received ", root));
  ctx.set_output(0, ctx.input(0));
  return {};
}

// The x of the root became the y of every replica, and those of the others went nowhere: the root
// gets the sum of the gradients of all replicas, and the others get 0.
Status grad_broadcast_from(GradientContext& ctx) {
  const ValueId sum = ctx.emit("leat.AllReduce", {ctx.grad(0)}, {{"op", std::string("sum")}});
  const ValueId root = ctx.constant(Tensor::scalar(attr_int(ctx.node().attrs, "root")));
  const ValueId is_root = ctx.emit("Equal", {ctx.emit("leat.ReplicaId", {}), root});
  const ValueId zero = ctx.scalar(0, ctx.type(ctx.grad(0)).dtype);
  // The replica's id has the shape [1], which a scalar has not.
  ctx.set_grad(0, ctx.unbroadcast(ctx.emit("Where", {is_root, sum, zero}), ctx.input(0)));
  return {};
}

// The gradient of AllGather is ReduceScatter, and the gradient of ReduceScatter is AllGather.
Status grad_by(GradientContext& ctx, std::string_view reverse) {
  const Attrs& attrs = ctx.node().attrs;
  ctx.set_grad(0, ctx.emit(reverse, {ctx.grad(0)},
                           {{"axis", attr_int(attrs, "axis")},
                            {"replicas", attr_int(attrs, "replicas", 1)}}));
  return {};
}
Status grad_all_gather(GradientContext& ctx) { return grad_by(ctx, "leat.ReduceScatter"); }
Status grad_reduce_scatter(GradientContext& ctx) { return grad_by(ctx, "leat.AllGather"); }

// The exchange in the other direction: the parts go back to the replicas that they came from.
Status grad_all_to_all(GradientContext& ctx) {
  const Attrs& attrs = ctx.node().attrs;
  ctx.set_grad(0, ctx.emit("leat.AllToAll", {ctx.grad(0)},
                           {{"split_axis", attr_int(attrs, "concat_axis")},
                            {"concat_axis", attr_int(attrs, "split_axis")},
                            {"replicas", attr_int(attrs, "replicas", 1)}}));
  return {};
}

Status infer_receive(InferContext& ctx) {
  const auto dtype = dtype_from_name(attr_string(ctx.attrs(), "dtype"));
  if (!dtype)
    return ctx.error(
        cat("dtype: expected an element type, received '", attr_string(ctx.attrs(), "dtype"), "'"));
  const auto shape = Shape::checked(attr_ints(ctx.attrs(), "shape"));
  if (!shape) return ctx.error("shape: expected sizes >= 0");
  ctx.set_tensor(0, *dtype, *shape);
  return {};
}

// y is made from the x of all replicas.
Op collective(const char* name, DTypeSet types) {
  return Op(name).input("x", "T").output("y", "T").type("T", types);
}
Op along_axis(const char* name, DTypeSet types) {
  return collective(name, types).attr("axis", int64_t{0}).attr("replicas", int64_t{1});
}

}  // namespace

void register_exchange_ops(Catalogue& catalogue) {
  catalogue.add(Op("leat.Gradients")
                    .input("y", "any")
                    .variadic_input("xs", "any", true)
                    .variadic_output("gradients", "any", true)
                    .infer(infer_gradients));
  // The view of one replica: y is x reduced over all replicas. A strategy with one replica replaces
  // y with x. `replicas`, if it is there, must be their number.
  catalogue.add(collective("leat.AllReduce", kNumbers)
                    .attr("op", std::string("sum"))
                    .attr_optional("replicas", "int")
                    .infer(infer_all_reduce)
                    .gradient(grad_all_reduce));
  // y is the concatenation of the x of all replicas.
  catalogue.add(along_axis("leat.AllGather", kAllTypes)
                    .infer(infer_along_axis<true>)
                    .gradient(grad_all_gather));
  // y is this replica's part of the sum of x over all replicas.
  catalogue.add(along_axis("leat.ReduceScatter", kNumbers)
                    .infer(infer_along_axis<false>)
                    .gradient(grad_reduce_scatter));
  // y is the x of the replica `root`.
  catalogue.add(collective("leat.Broadcast", kAllTypes)
                    .attr("root", int64_t{0})
                    .infer(infer_broadcast_from)
                    .gradient(grad_broadcast_from));
  // y is the concatenation of the parts of every replica's x that belong to this replica.
  catalogue.add(collective("leat.AllToAll", kAllTypes)
                    .attr("split_axis", int64_t{0})
                    .attr("concat_axis", int64_t{0})
                    .attr("replicas", int64_t{1})
                    .infer(infer_all_to_all)
                    .gradient(grad_all_to_all));
  catalogue.add(Op("leat.Send")
                    .input("x", "any")
                    .attr("edge", int64_t{0})
                    .stateful()
                    .infer([](InferContext&) { return Status(); }));
  catalogue.add(Op("leat.Receive")
                    .output("y", "any")
                    .attr("edge", int64_t{0})
                    .attr("dtype", std::string("float"))
                    .attr("shape", std::vector<int64_t>())
                    .stateful()
                    .infer(infer_receive));
  // Tokens between devices carry order only, no data.
  catalogue.add(Op("leat.SendToken").attr("edge", int64_t{0}).stateful().infer([](InferContext&) {
    return Status();
  }));
  catalogue.add(
      Op("leat.ReceiveToken").attr("edge", int64_t{0}).stateful().infer([](InferContext&) {
        return Status();
      }));
}

}  // namespace leat
