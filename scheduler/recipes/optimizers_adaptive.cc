// The optimizers that divide each element of a gradient by a measure of its size. With g the
// gradient, p the weight, lr the rate of the step and t its number from 1; in all but lion,
// g += weight_decay * p comes first, or with `decoupled` p *= 1 - lr * weight_decay.
//
//   nadam     mu_t = beta_1 * (1 - 0.96^(t * momentum_decay) / 2);  P_t = mu_1 * ... * mu_t
//             m and v as in Adam;  w = sqrt(v / (1 - beta_2^t)) + epsilon
//             p -= lr * ((1 - mu_t) / (1 - P_t) * g + mu_t+1 / (1 - P_t * mu_t+1) * m) / w
//   radam     m and v as in Adam;  r = 2 / (1 - beta_2) - 1;
//             r_t = r - 2 * t * beta_2^t / (1 - beta_2^t);  p -= lr * m / (1 - beta_1^t) * s,
//             s = 1 while r_t <= 5, then sqrt((1 - beta_2^t) * (r_t - 4) * (r_t - 2) * r /
//                 ((r - 4) * (r - 2) * r_t)) / (sqrt(v) + epsilon)
//   adamax    m as in Adam;  u = max(beta_2 * u, |g| + epsilon);  p -= lr / (1 - beta_1^t) * m / u
//   adagrad   s += g^2;  p -= lr / (1 + (t - 1) * lr_decay) * g / (sqrt(s) + epsilon), with
//             s = initial_accumulator at first
//   rmsprop   v = rho * v + (1 - rho) * g^2;  centered: minus the square of the average of g
//             u = momentum * u + g / (sqrt(v) + epsilon);  p -= lr * u
//   adadelta  v = rho * v + (1 - rho) * g^2;  d = sqrt(a + epsilon) / sqrt(v + epsilon) * g;
//             a = rho * a + (1 - rho) * d^2;  p -= lr * d
//   lion      p *= 1 - lr * weight_decay;  p -= lr * sign(beta_1 * m + (1 - beta_1) * g);
//             m = beta_2 * m + (1 - beta_2) * g
//   rprop     by the sign of g times the gradient before: step *= rise, fall or 1, within
//             [step_min, step_max];  where the sign turned g = 0;  p -= sign(g) * step, with
//             step = lr at first
//   asgd      p -= lr / (1 + lambd * lr * (t - 1))^power * g, after p *= 1 - lambd * that rate;
//             the average of p from step averages_from on is state alone
//
// They are the classes of torch.optim, and have their defaults; Lion is as its paper has it.
// Sources: Dozat, Nesterov Momentum into Adam (2016); Liu et al., On the Variance of the Adaptive
// Learning Rate (2020); Kingma and Ba, Adam (2015), section 7; Duchi et al., Adaptive Subgradient
// Methods (2011); Hinton, Neural Networks for Machine Learning, lecture 6e (2012); Zeiler, ADADELTA
// (2012); Chen et al., Symbolic Discovery of Optimization Algorithms (2023); Riedmiller and Braun
// (1993); Polyak and Juditsky (1992).
#include "scheduler/recipes/optimizers.h"

namespace leat {
namespace {

// The gradient with the decay of the weights, and the weights, by the settings `weight_decay` and
// perhaps `decoupled`.
struct Decayed {
  Expression gradient, weight;
};

Decayed decayed(Update& u, bool decoupled) {
  const double decay = u.number("weight_decay");
  const Expression g = u.gradient(), p = u.weight();
  if (decay == 0) return {g, p};
  if (decoupled) return {g, p * u.narrow(1 - u.rate() * decay)};
  return {g + p * decay, p};
}

// 1 - beta^t.
Expression correction(Update& u, double beta) { return 1 - pow(beta, u.t()); }

// The moments of Adam, which become the state.
struct Moments {
  Expression m, v;
};

Moments moments(Update& u, const Expression& g) {
  Moments out{lerp(u.state("m"), g, 1 - u.number("beta_1")),
              u.state("v") * u.number("beta_2") + square(g) * (1 - u.number("beta_2"))};
  u.set_state("m", out.m);
  u.set_state("v", out.v);
  return out;
}

constexpr Setting kDecoupled = {.name = "decoupled", .kind = SettingKind::flag};
constexpr Setting kNadamSettings[] = {beta("beta_1", 0.9), beta("beta_2", 0.999),
                                      epsilon(1e-8),       not_negative("momentum_decay", 4e-3),
                                      kWeightDecay,        kDecoupled};

// The state is 1 - P_t, which is 0 at first as all state is.
void update_by_nadam(Update& u) {
  const auto [g, p] = decayed(u, u.flag("decoupled"));
  const auto [m, v] = moments(u, g);
  const double beta_1 = u.number("beta_1"), decay = u.number("momentum_decay");
  const auto mu_at = [&](const Expression& t) { return (1 - pow(0.96, t * decay) * 0.5) * beta_1; };
  const Expression mu = mu_at(u.t()), next = mu_at(u.t() + 1);
  const Expression product = (1 - u.exact_state("mu")) * mu;
  u.set_state("mu", 1 - product);
  const Expression w = sqrt(v / u.narrow(correction(u, u.number("beta_2")))) + u.number("epsilon");
  const Expression of_g = u.narrow(u.rate() * (1 - mu) / (1 - product));
  const Expression of_m = u.narrow(u.rate() * next / (1 - product * next));
  u.set_weight(p - of_g * g / w - of_m * m / w);
}

constexpr Setting kRadamSettings[] = {beta("beta_1", 0.9), beta("beta_2", 0.999), epsilon(1e-8),
                                      kWeightDecay, kDecoupled};

void update_by_radam(Update& u) {
  const auto [g, p] = decayed(u, u.flag("decoupled"));
  const auto [m, v] = moments(u, g);
  const double beta_2 = u.number("beta_2"), r = 2 / (1 - beta_2) - 1;
  const Expression c = correction(u, beta_2);
  const Expression r_t = r - u.t() * 2 * pow(beta_2, u.t()) / c;
  const Expression ripe = less(5, r_t);
  // In early steps the root would be that of a negative number; its value is not used then.
  const Expression safe = max(r_t, 5);
  const Expression rectified = sqrt(c * (safe - 4) * (safe - 2) * r / (safe * ((r - 4) * (r - 2))));
  const Expression rate = u.rate() / correction(u, u.number("beta_1"));
  u.set_weight(p - where(ripe, u.narrow(rate * rectified) * m / (sqrt(v) + u.number("epsilon")),
                         u.narrow(rate) * m));
}

constexpr Setting kAdamaxSettings[] = {beta("beta_1", 0.9), beta("beta_2", 0.999), epsilon(1e-8),
                                       kWeightDecay};

void update_by_adamax(Update& u) {
  const auto [g, p] = decayed(u, false);
  const double beta_1 = u.number("beta_1");
  const Expression m = lerp(u.state("m"), g, 1 - beta_1);
  const Expression norm = max(u.state("u") * u.number("beta_2"), abs(g) + u.number("epsilon"));
  u.set_state("m", m);
  u.set_state("u", norm);
  u.set_weight(p - u.narrow(u.rate() / correction(u, beta_1)) * m / norm);
}

constexpr Setting kAdagradSettings[] = {
    not_negative("lr_decay"), not_negative("initial_accumulator"), epsilon(1e-10), kWeightDecay};

// The state is the sum without its initial value, so that it begins as zeros.
void update_by_adagrad(Update& u) {
  const auto [g, p] = decayed(u, false);
  const Expression sum = u.state("sum") + square(g);
  u.set_state("sum", sum);
  const Expression rate = u.narrow(u.rate() / ((u.t() - 1) * u.number("lr_decay") + 1));
  u.set_weight(p - rate * g / (sqrt(sum + u.number("initial_accumulator")) + u.number("epsilon")));
}

constexpr Setting kRmspropSettings[] = {beta("rho", 0.99),
                                        kMomentum,
                                        {.name = "centered", .kind = SettingKind::flag},
                                        epsilon(1e-8),
                                        kWeightDecay};

void update_by_rmsprop(Update& u) {
  const auto [g, p] = decayed(u, false);
  const double rho = u.number("rho");
  const Expression v = u.state("v") * rho + square(g) * (1 - rho);
  u.set_state("v", v);
  Expression spread = v;
  if (u.flag("centered")) {
    const Expression mean = lerp(u.state("mean"), g, 1 - rho);
    u.set_state("mean", mean);
    spread = v - square(mean);
  }
  Expression update = g / (sqrt(spread) + u.number("epsilon"));
  if (u.number("momentum") > 0) {
    update = u.state("momentum") * u.number("momentum") + update;
    u.set_state("momentum", update);
  }
  u.set_weight(p - u.narrow(u.rate()) * update);
}

constexpr Setting kAdadeltaSettings[] = {beta("rho", 0.9), epsilon(1e-6), kWeightDecay};

void update_by_adadelta(Update& u) {
  const auto [g, p] = decayed(u, false);
  const double rho = u.number("rho"), epsilon = u.number("epsilon");
  const Expression v = u.state("v") * rho + square(g) * (1 - rho);
  const Expression a = u.state("delta");
  const Expression delta = sqrt(a + epsilon) / sqrt(v + epsilon) * g;
  u.set_state("v", v);
  u.set_state("delta", a * rho + square(delta) * (1 - rho));
  u.set_weight(p - u.narrow(u.rate()) * delta);
}

constexpr Setting kLionSettings[] = {beta("beta_1", 0.9), beta("beta_2", 0.99), kWeightDecay};

void update_by_lion(Update& u) {
  const auto [g, p] = decayed(u, true);
  const Expression m = u.state("m");
  u.set_state("m", lerp(m, g, 1 - u.number("beta_2")));
  u.set_weight(p - u.narrow(u.rate()) * sign(lerp(m, g, 1 - u.number("beta_1"))));
}

constexpr Setting kRpropSettings[] = {
    {.name = "rise", .initial = 1.2, .min = 1, .min_open = true},
    {.name = "fall", .initial = 0.5, .min = 0, .max = 1, .min_open = true, .max_open = true},
    positive("step_min", 1e-6),
    positive("step_max", 50)};

// A step of 0 is one that has not begun: all others are at least step_min.
void update_by_rprop(Update& u) {
  const Expression g = u.gradient(), before = u.state("step");
  const Expression turn = sign(g * u.state("gradient"));
  const Expression begun = where(less(0, before), before, u.narrow(u.rate()));
  const Expression factor =
      where(less(0, turn), u.number("rise"), where(less(turn, 0), u.number("fall"), 1));
  const Expression step = min(max(begun * factor, u.number("step_min")), u.number("step_max"));
  const Expression kept = where(less(turn, 0), 0, g);
  u.set_state("step", step);
  u.set_state("gradient", kept);
  u.set_weight(u.weight() - sign(kept) * step);
}

constexpr Setting kAsgdSettings[] = {not_negative("lambd", 1e-4), not_negative("power", 0.75),
                                     not_negative("averages_from", 1e6), kWeightDecay};

void update_by_asgd(Update& u) {
  const auto [g, p] = decayed(u, false);
  const double lambd = u.number("lambd");
  const Expression rate = u.rate() / pow(u.rate() * (u.t() - 1) * lambd + 1, u.number("power"));
  const Expression next = p * u.narrow(1 - rate * lambd) - u.narrow(rate) * g;
  // Its share of the average: 1 at first, and later 1 over the steps since.
  const Expression share = 1 / max(u.t() - 1 - u.number("averages_from"), 1);
  const Expression average = u.state("average");
  u.set_state("average", where(less(share, 1), lerp(average, next, u.narrow(share)), next));
  u.set_weight(next);
}

constexpr Optimizer kAdaptiveOptimizers[] = {
    {.name = "nadam", .settings = kNadamSettings, .update = update_by_nadam},
    {.name = "radam", .settings = kRadamSettings, .update = update_by_radam},
    {.name = "adamax", .settings = kAdamaxSettings, .update = update_by_adamax},
    {.name = "adagrad", .settings = kAdagradSettings, .update = update_by_adagrad},
    {.name = "rmsprop", .settings = kRmspropSettings, .update = update_by_rmsprop},
    {.name = "adadelta", .settings = kAdadeltaSettings, .update = update_by_adadelta},
    {.name = "lion", .settings = kLionSettings, .update = update_by_lion},
    {.name = "rprop", .settings = kRpropSettings, .update = update_by_rprop},
    {.name = "asgd", .settings = kAsgdSettings, .update = update_by_asgd},
};

}  // namespace

std::span<const Optimizer> adaptive_optimizers() { return kAdaptiveOptimizers; }

}  // namespace leat
