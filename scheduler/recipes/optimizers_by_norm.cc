// The optimizers that look at a variable as a whole: at the norms of weights and gradients, at the
// rows and columns of a matrix. With the names of optimizers_adaptive.cc and |x| the Euclidean
// norm over all elements:
//
//   lars       q = trust_coefficient * |p| / (|g| + weight_decay * |p|), 1 if a norm is 0;
//              u = momentum * u + lr * q * (g + weight_decay * p);  p -= u
//   lamb       m and v as in Adam;  r = m / (1 - beta_1^t) / (sqrt(v / (1 - beta_2^t)) + epsilon)
//              + weight_decay * p;  p -= lr * |p| / |r| * r, the quotient 1 if a norm is 0
//   adafactor  as torch.optim.Adafactor: v of a variable of rank 2 or more is the product of the
//              means over the rows and over the columns, divided by their mean
//   muon       u = momentum * u + (1 - momentum) * g;  o = u, or with nesterov
//              (1 - momentum) * g + momentum * u;  ns_steps of Newton and Schulz make o orthogonal;
//              p *= 1 - lr * weight_decay;  p -= lr * sqrt(max(1, rows / columns)) * o, or with
//              match_rms lr * 0.2 * sqrt(max(rows, columns)) * o. It is for matrices, and for
//              filters as matrices of their first size; other variables, and those without
//              `orthogonal`, are updated as by adamw.
//
// Sources: You et al., Large Batch Training of Convolutional Networks (2017); You et al., Large
// Batch Optimization for Deep Learning (2020); Shazeer and Stern, Adafactor (2018); Jordan et al.,
// Muon (2024); Liu et al., Muon is Scalable for LLM Training (2025).
#include <algorithm>
#include <cmath>
#include <limits>

#include "scheduler/recipes/optimizers.h"

namespace leat {
namespace {

Expression norm(Update& u, const Expression& x) { return sqrt(sum(u.builder(), square(x))); }

// a / b, or 1 if one of both norms is 0.
Expression ratio(const Expression& a, const Expression& b) {
  return where(less(0, a * b), a / b, 1);
}

// The root of the mean of the squares.
Expression rms(Update& u, const Expression& x) {
  const auto elements = static_cast<double>(std::max<int64_t>(1, u.inputs().shape.elements()));
  return norm(u, x) / std::sqrt(elements);
}

double machine_epsilon(DType dtype) {
  return dtype == DType::f64 ? std::numeric_limits<double>::epsilon()
                             : double{std::numeric_limits<float>::epsilon()};
}

// The estimate of the squares of a gradient by their means over the last two axes, which are the
// state.
Expression factored(Update& u, const Expression& share, double epsilon) {
  const Shape& shape = u.inputs().shape;
  const int64_t rank = shape.rank();
  std::vector<int64_t> sizes(shape.begin(), shape.end());
  const auto mean = [&](const Expression& x, int64_t axis) {
    return sum(u.builder(), x, {axis}) / static_cast<double>(sizes[static_cast<size_t>(axis)]);
  };
  const auto without = [&](int64_t axis) {
    std::vector<int64_t> kept = sizes;
    kept[static_cast<size_t>(axis)] = 1;
    return *Shape::checked(kept);
  };
  const Expression squares = square(u.gradient());
  const Expression rows = lerp(u.state("rows", without(rank - 1)), mean(squares, rank - 1), share);
  const Expression columns =
      lerp(u.state("columns", without(rank - 2)), mean(squares, rank - 2), share);
  u.set_state("rows", rows);
  u.set_state("columns", columns);
  return rows * columns / max(mean(rows, rank - 2), epsilon);
}

// The steps of Newton and Schulz: singular values move towards 1.
Expression orthogonal(const Expression& x, int64_t steps) {
  constexpr double kA = 3.4445, kB = -4.7750, kC = 2.0315;
  Expression o = x;
  for (int64_t i = 0; i < steps; ++i) {
    const Expression gram = matmul(o, transpose(o));
    o = o * kA + matmul(gram * kB + matmul(gram, gram) * kC, o);
  }
  return o;
}

constexpr Setting kLarsSettings[] = {with_default(kMomentum, 0.9),
                                     not_negative("trust_coefficient", 1e-3), kWeightDecay};

void update_by_lars(Update& u) {
  const double decay = u.number("weight_decay");
  const Expression p = u.weight(), g = u.gradient();
  const Expression of_p = norm(u, p), of_g = norm(u, g);
  const Expression trust =
      where(less(0, of_p * of_g), of_p * u.number("trust_coefficient") / (of_g + of_p * decay), 1);
  const Expression velocity =
      u.state("momentum") * u.number("momentum") + u.narrow(u.rate()) * trust * (g + p * decay);
  u.set_state("momentum", velocity);
  u.set_weight(p - velocity);
}

constexpr Setting kLambSettings[] = {beta("beta_1", 0.9), beta("beta_2", 0.999), epsilon(1e-6),
                                     with_default(kWeightDecay, 0.01)};

void update_by_lamb(Update& u) {
  const double beta_1 = u.number("beta_1"), beta_2 = u.number("beta_2");
  const Expression p = u.weight(), g = u.gradient();
  const Expression m = lerp(u.state("m"), g, 1 - beta_1);
  const Expression v = u.state("v") * beta_2 + square(g) * (1 - beta_2);
  u.set_state("m", m);
  u.set_state("v", v);
  const Expression r = m / u.narrow(1 - pow(beta_1, u.t())) /
                           (sqrt(v / u.narrow(1 - pow(beta_2, u.t()))) + u.number("epsilon")) +
                       p * u.number("weight_decay");
  u.set_weight(p - u.narrow(u.rate()) * ratio(norm(u, p), norm(u, r)) * r);
}

constexpr Setting kAdafactorSettings[] = {{.name = "beta_2_decay", .initial = -0.8, .max = 0},
                                          not_negative("epsilon_1"),
                                          positive("epsilon_2", 1e-3),
                                          positive("clip_threshold", 1),
                                          kWeightDecay};

void update_by_adafactor(Update& u) {
  const double given = u.number("epsilon_1");
  const double epsilon = given > 0 ? given : machine_epsilon(u.inputs().dtype);
  const Expression p = u.weight(), g = u.gradient();
  const Expression share = u.narrow(pow(u.t(), u.number("beta_2_decay")));
  Expression v = 0;
  if (u.inputs().shape.rank() > 1) {
    v = factored(u, share, epsilon);
  } else {
    v = lerp(u.state("v"), square(g), share);
    u.set_state("v", v);
  }
  const Expression update = g / sqrt(max(v, epsilon * epsilon));
  const Expression rate = u.narrow(min(u.rate(), 1 / sqrt(u.t())));
  const Expression scale = max(rms(u, p), u.number("epsilon_2")) * rate /
                           max(rms(u, update) / u.number("clip_threshold"), 1);
  u.set_weight(p * u.narrow(1 - u.rate() * u.number("weight_decay")) - scale * update);
}

constexpr Setting kMuonSettings[] = {
    with_default(kMomentum, 0.95),
    with_default(kNesterov, 1),
    {.name = "ns_steps", .kind = SettingKind::integer, .initial = 5, .min = 1, .max = 20},
    {.name = "match_rms", .kind = SettingKind::flag},
    {.name = "orthogonal", .kind = SettingKind::flag, .initial = 1},
    beta("beta_1", 0.9),
    beta("beta_2", 0.999),
    epsilon(1e-8),
    with_default(kWeightDecay, 0.1)};

void update_by_muon(Update& u) {
  const Shape& shape = u.inputs().shape;
  if (shape.rank() < 2 || shape.elements() == 0 || !u.flag("orthogonal")) return update_by_adamw(u);
  const double momentum = u.number("momentum");
  const Expression g = u.gradient(), velocity = lerp(u.state("momentum"), g, 1 - momentum);
  u.set_state("momentum", velocity);
  const int64_t rows = shape[0], columns = shape.elements() / rows;
  Expression o = u.flag("nesterov") ? lerp(g, velocity, momentum) : velocity;
  if (shape.rank() > 2) o = reshape(u.builder(), o, {rows, columns});
  if (rows > columns) o = transpose(o);
  o = orthogonal(o / max(norm(u, o), 1e-7), u.integer("ns_steps"));
  if (rows > columns) o = transpose(o);
  if (shape.rank() > 2) o = reshape(u.builder(), o, {shape.begin(), shape.end()});
  const auto longer = static_cast<double>(std::max(rows, columns));
  const double scale =
      u.flag("match_rms")
          ? 0.2 * std::sqrt(longer)
          : std::sqrt(std::max(1.0, static_cast<double>(rows) / static_cast<double>(columns)));
  u.set_weight(u.weight() * u.narrow(1 - u.rate() * u.number("weight_decay")) -
               u.narrow(u.rate() * scale) * o);
}

constexpr Optimizer kNormOptimizers[] = {
    {.name = "lars", .settings = kLarsSettings, .update = update_by_lars},
    {.name = "lamb", .settings = kLambSettings, .update = update_by_lamb},
    {.name = "adafactor", .settings = kAdafactorSettings, .update = update_by_adafactor},
    {.name = "muon", .settings = kMuonSettings, .update = update_by_muon},
};

}  // namespace

std::span<const Optimizer> norm_optimizers() { return kNormOptimizers; }

}  // namespace leat
