// Activations and their gradients. Each gradient is one op, because it runs as often as the
// activation.
#include "ops/definitions/activation.h"

#include <cmath>

#include "devices/base/text.h"
#include "ops/definitions/definitions.h"
#include "ops/definitions/elementwise.h"

namespace leat {
namespace {

Op activation(std::string_view name, int since) {
  return Op(name, since)
      .input("X", "T")
      .output("Y", "T")
      .type("T", kFloats)
      .infer(infer_same_as_first)
      .in_place(0, 0)
      .tiling(elementwise_tiling)
      .layouts(elementwise_layouts)
      .sharding(shard_elementwise);
}

// dy and x (or y) must agree as types: a symbol is equal to itself alone.
Status infer_gradient(InferContext& ctx) {
  if (!(ctx.shape(0) == ctx.shape(1))) {
    return ctx.error(cat("expected two operands of one shape, received ", ctx.text(ctx.shape(0)),
                         " and ", ctx.text(ctx.shape(1))));
  }
  return infer_same_as_first(ctx);
}

// An op that computes dx from (dy, x or y).
Op activation_grad(std::string_view name, std::string second) {
  return Op(name)
      .input("dY", "T")
      .input(std::move(second), "T")
      .output("dX", "T")
      .type("T", kFloats)
      .infer(infer_gradient)
      .in_place(0, 0)
      .in_place(0, 1)
      .tiling(elementwise_tiling)
      .layouts(elementwise_layouts)
      .sharding(shard_linear_in_first);
}

// Sets the gradient to op `name` of (dy, x), with the node's own attributes.
std::function<Status(GradientContext&)> grad_of_input(std::string name) {
  return [name = std::move(name)](GradientContext& ctx) -> Status {
    ctx.set_grad(0, ctx.emit(name, {ctx.grad(0), ctx.input(0)}, ctx.node().attrs));
    return {};
  };
}

// Sets the gradient to op `name` of (dy, y). The backward pass does not need x then.
std::function<Status(GradientContext&)> grad_of_output(std::string name) {
  return [name = std::move(name)](GradientContext& ctx) -> Status {
    ctx.set_grad(0, ctx.emit(name, {ctx.grad(0), ctx.output(0)}));
    return {};
  };
}

Status softplus_gradient(GradientContext& ctx) {
  ctx.set_grad(0, ctx.emit("Mul", {ctx.grad(0), ctx.emit("Sigmoid", {ctx.input(0)})}));
  return {};
}

// Gelu and its gradient have two formulas: the exact one and tanh's approximation.
template <typename Rule>
std::function<Status(InferContext&)> with_approximation(Rule rule) {
  return [rule](InferContext& ctx) -> Status {
    const std::string approximate = attr_string(ctx.attrs(), "approximate");
    if (approximate != "none" && approximate != "tanh") {
      return ctx.error(cat("approximate: expected 'none' or 'tanh', received '", approximate, "'"));
    }
    return rule(ctx);
  };
}

void register_gelu(Catalogue& catalogue) {
  const Attr none = std::string("none");
  catalogue.add(activation("Gelu", 20)
                    .attr("approximate", none)
                    .infer(with_approximation(infer_same_as_first))
                    .gradient(grad_of_input("leat.GeluGrad")));
  catalogue.add(activation_grad("leat.GeluGrad", "X")
                    .attr("approximate", none)
                    .infer(with_approximation(infer_gradient)));
}

}  // namespace

Status check_fused_activation(const InferContext& ctx) {
  const std::string activation = attr_string(ctx.attrs(), "leat_activation");
  if (activation.empty() || activation == "relu") return {};
  return ctx.error(cat("leat_activation: expected 'relu', received '", activation, "'"));
}

void register_activation_ops(Catalogue& catalogue) {
  catalogue.add(
      activation("Relu", 14).type("T", kSigned).gradient(grad_of_output("leat.ReluGrad")));
  catalogue.add(activation_grad("leat.ReluGrad", "Y"));
  catalogue.add(activation("LeakyRelu", 16)
                    .attr("alpha", 0.01)
                    .gradient(grad_of_input("leat.LeakyReluGrad")));
  catalogue.add(activation_grad("leat.LeakyReluGrad", "X").attr("alpha", 0.01));
  catalogue.add(activation("Sigmoid", 13).gradient(grad_of_output("leat.SigmoidGrad")));
  catalogue.add(activation_grad("leat.SigmoidGrad", "Y"));
  catalogue.add(activation("Tanh", 13).gradient(grad_of_output("leat.TanhGrad")));
  catalogue.add(activation_grad("leat.TanhGrad", "Y"));
  register_gelu(catalogue);
  catalogue.add(activation("Elu", 6).attr("alpha", 1.0).gradient(grad_of_input("leat.EluGrad")));
  catalogue.add(activation_grad("leat.EluGrad", "X").attr("alpha", 1.0));
  catalogue.add(activation("Softplus", 1).gradient(softplus_gradient));
  catalogue.add(activation("HardSigmoid", 6)
                    .attr("alpha", 0.2)
                    .attr("beta", 0.5)
                    .gradient(grad_of_input("leat.HardSigmoidGrad")));
  catalogue.add(activation_grad("leat.HardSigmoidGrad", "X").attr("alpha", 0.2).attr("beta", 0.5));
}

}  // namespace leat
