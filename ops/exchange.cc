// Gradients as a node, collectives of replicas, and transfers between devices. None of them has
// work of its own to do on a device: compilation replaces them (Gradients, collectives) or the
// runtime moves the bytes (Send, Receive).
#include "devices/base/text.h"
#include "ops/catalogue.h"

namespace leat {
namespace {

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

// The sum over replicas of what each replica does with its sum: an all-reduce again.
Status grad_all_reduce(GradientContext& ctx) {
  const std::string op = attr_string(ctx.node().attrs, "op", "sum");
  if (op != "sum" && op != "mean")
    return ctx.error(cat("AllReduce with op '", op, "' has no gradient"));
  ctx.set_grad(0, ctx.emit("leat.AllReduce", {ctx.grad(0)}, {{"op", op}}));
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

}  // namespace

void register_exchange_ops(Catalogue& catalogue) {
  catalogue.add(Op("leat.Gradients")
                    .input("y", "any")
                    .variadic_input("xs", "any", true)
                    .variadic_output("gradients", "any", true)
                    .infer(infer_gradients));
  // One replica's view: y is x combined over all replicas. A strategy with one replica passes x on.
  catalogue.add(Op("leat.AllReduce")
                    .input("x", "T")
                    .output("y", "T")
                    .type("T", kNumbers)
                    .attr("op", std::string("sum"))
                    .infer(infer_all_reduce)
                    .gradient(grad_all_reduce));
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
  // Order only, between devices.
  catalogue.add(Op("leat.SendToken").attr("edge", int64_t{0}).stateful().infer([](InferContext&) {
    return Status();
  }));
  catalogue.add(
      Op("leat.ReceiveToken").attr("edge", int64_t{0}).stateful().infer([](InferContext&) {
        return Status();
      }));
}

}  // namespace leat
