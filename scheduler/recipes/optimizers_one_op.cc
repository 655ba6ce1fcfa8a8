// The optimizers that have a kernel, ops/definitions/optimizer.cc. They are PyTorch's
// torch.optim.SGD, Adam and AdamW. With g the mean of the gradient over the global batch, p the
// weight and lr the rate of the step:
//
//   sgd    u = momentum * u + g + weight_decay * p;  p -= lr * u
//          nesterov: p -= lr * (g + weight_decay * p + momentum * u), with the new u
//   adam   g += weight_decay * p;  m = beta_1 * m + (1 - beta_1) * g;
//          v = beta_2 * v + (1 - beta_2) * g^2;
//          p -= lr / (1 - beta_1^t) * m / (sqrt(v / (1 - beta_2^t)) + epsilon), t from 1
//   adamw  p *= 1 - lr * weight_decay, then as adam without the first term
//
// Source: Kingma and Ba, Adam (2015); Loshchilov and Hutter, Decoupled Weight Decay (2019).
#include "scheduler/recipes/optimizers.h"

namespace leat {
namespace {

Attrs common_attrs(const Update& u) {
  Attrs attrs{{"weight_decay", u.number("weight_decay")}};
  if (u.inputs().lazy) attrs["lazy"] = int64_t{1};
  return attrs;
}

void add_adam(Update& u, std::string_view op) {
  Attrs attrs = common_attrs(u);
  for (const char* setting : {"beta_1", "beta_2", "epsilon"}) attrs[setting] = u.number(setting);
  const UpdateInputs& in = u.inputs();
  const ValueId m = u.slot("m"), v = u.slot("v");
  u.add(
      u.builder().effect(op, {in.variable, m, v, in.gradient(), in.rounded_rate, in.step}, attrs));
}

constexpr Setting kSgdSettings[] = {kMomentum, kNesterov, kWeightDecay};

// SGD without momentum has an op of its own, which needs no slot.
void update_by_sgd(Update& u) {
  Attrs attrs = common_attrs(u);
  const UpdateInputs& in = u.inputs();
  if (u.number("momentum") == 0) {
    u.add(
        u.builder().effect("leat.ApplySgd", {in.variable, in.gradient(), in.rounded_rate}, attrs));
    return;
  }
  attrs["momentum"] = u.number("momentum");
  attrs["nesterov"] = int64_t{u.flag("nesterov")};
  const ValueId velocity = u.slot("momentum");
  u.add(u.builder().effect("leat.ApplyMomentum",
                           {in.variable, velocity, in.gradient(), in.rounded_rate}, attrs));
}

constexpr Setting kAdamSettings[] = {beta("beta_1", 0.9), beta("beta_2", 0.999), epsilon(1e-8),
                                     kWeightDecay};

void update_by_adam(Update& u) { add_adam(u, "leat.ApplyAdam"); }

constexpr Setting kAdamWSettings[] = {beta("beta_1", 0.9), beta("beta_2", 0.999), epsilon(1e-8),
                                      with_default(kWeightDecay, 0.01)};

constexpr Optimizer kOneOpOptimizers[] = {
    {.name = "sgd", .settings = kSgdSettings, .update = update_by_sgd, .is_one_op = true},
    {.name = "adam", .settings = kAdamSettings, .update = update_by_adam, .is_one_op = true},
    {.name = "adamw", .settings = kAdamWSettings, .update = update_by_adamw, .is_one_op = true},
};

}  // namespace

void update_by_adamw(Update& u) { add_adam(u, "leat.ApplyAdamW"); }

std::span<const Optimizer> one_op_optimizers() { return kOneOpOptimizers; }

}  // namespace leat
