// The update rules of torch.optim, each as one op over one variable and its slots. The formulas and
// the order of their operations are those of PyTorch's single-tensor implementations (SGD without
// dampening, Adam, AdamW; none with amsgrad or maximize): hyperparameters are doubles, rounded to
// the type of the arithmetic where an element meets them.
#include <cmath>
#include <type_traits>

#include "devices/base/text.h"
#include "ops/catalogue.h"
#include "ops/prefetch.h"
#include "ops/variable.h"
#include "ops/vectorize.h"

namespace leat {
namespace {

// ---------------------------------------------------------------------------------------------
// Signatures

// Inputs [0, variables) are the variable and its slots, then grad, then lr.
Status infer_apply(InferContext& ctx, int variables) {
  LEAT_RETURN_IF_ERROR(expect_equal_variables(ctx, variables));
  LEAT_RETURN_IF_ERROR(expect_fits(ctx, variables));
  const int lr = variables + 1;
  if (ctx.shape(lr).rank() != 0) {
    return ctx.error(cat("lr: expected a scalar, received ", ctx.text(ctx.shape(lr))));
  }
  return infer_done(ctx);
}

// A hyperparameter must lie in [low, high); high == infinity for none.
Status expect_within(const InferContext& ctx, std::string_view name, double low, double high) {
  const double value = attr_float(ctx.attrs(), name);
  if (value >= low && value < high) return {};
  return ctx.error(cat(name, ": expected in [", low, ", ", high, "), received ", value));
}

Status infer_sgd(InferContext& ctx) {
  LEAT_RETURN_IF_ERROR(expect_within(ctx, "weight_decay", 0, HUGE_VAL));
  return infer_apply(ctx, 1);
}

Status infer_momentum(InferContext& ctx) {
  LEAT_RETURN_IF_ERROR(expect_within(ctx, "weight_decay", 0, HUGE_VAL));
  LEAT_RETURN_IF_ERROR(expect_within(ctx, "momentum", 0, HUGE_VAL));
  if (attr_int(ctx.attrs(), "nesterov") != 0 && attr_float(ctx.attrs(), "momentum") == 0) {
    return ctx.error("nesterov: expected a momentum above 0, received 0");
  }
  return infer_apply(ctx, 2);
}

Status infer_adam(InferContext& ctx) {
  LEAT_RETURN_IF_ERROR(expect_within(ctx, "beta_1", 0, 1));
  LEAT_RETURN_IF_ERROR(expect_within(ctx, "beta_2", 0, 1));
  LEAT_RETURN_IF_ERROR(expect_within(ctx, "epsilon", 0, HUGE_VAL));
  LEAT_RETURN_IF_ERROR(expect_within(ctx, "weight_decay", 0, HUGE_VAL));
  if (ctx.shape(5).rank() != 0) {
    return ctx.error(cat("step: expected a scalar, received ", ctx.text(ctx.shape(5))));
  }
  return infer_apply(ctx, 3);
}

// ---------------------------------------------------------------------------------------------
// Loops over elements of type T, with arithmetic in C: T itself, or float for the halves.

template <typename T>
using Arithmetic = std::conditional_t<std::is_same_v<T, double>, double, float>;

LEAT_INLINE float load(float x) { return x; }
LEAT_INLINE double load(double x) { return x; }
LEAT_INLINE float load(Half x) { return to_float(x); }
LEAT_INLINE float load(BFloat16 x) { return to_float(x); }
LEAT_INLINE void store(float& to, float x) { to = x; }
LEAT_INLINE void store(double& to, double x) { to = x; }
LEAT_INLINE void store(Half& to, float x) { to = to_half(x); }
LEAT_INLINE void store(BFloat16& to, float x) { to = to_bfloat16(x); }

template <typename C>
struct SgdRule {
  C lr, weight_decay;
};

template <typename T, typename C>
LEAT_INLINE void sgd_loop(T* var, const T* grad, int64_t n, SgdRule<C> rule) {
  const bool decay = rule.weight_decay != 0;
  LEAT_NO_OVERLAP
  for (int64_t i = 0; i < n; ++i) {
    const C p = load(var[i]);
    C g = load(grad[i]);
    if (decay) g = g + rule.weight_decay * p;
    store(var[i], p - rule.lr * g);
  }
}

template <typename C>
struct MomentumRule {
  C lr, weight_decay, momentum;
  bool nesterov;
};

template <typename T, typename C>
LEAT_INLINE void momentum_loop(T* var, T* velocity, const T* grad, int64_t n,
                               MomentumRule<C> rule) {
  const bool decay = rule.weight_decay != 0, nesterov = rule.nesterov;
  LEAT_NO_OVERLAP
  for (int64_t i = 0; i < n; ++i) {
    const C p = load(var[i]);
    C g = load(grad[i]);
    if (decay) g = g + rule.weight_decay * p;
    const C u = rule.momentum * load(velocity[i]) + g;
    store(velocity[i], u);
    store(var[i], p - rule.lr * (nesterov ? g + rule.momentum * u : u));
  }
}

template <typename C>
struct AdamRule {
  C beta_1, one_minus_beta_1, beta_2, one_minus_beta_2, epsilon;
  C weight_decay;       // Adam: added to the gradient; 0 in AdamW
  C keep;               // AdamW: 1 - lr x weight_decay, multiplied into the weights; 1 in Adam
  C step_size;          // lr / bias_correction_1
  C correction_2_root;  // sqrt(bias_correction_2)
};

template <typename T, typename C>
LEAT_INLINE void adam_loop(T* var, T* m, T* v, const T* grad, int64_t n, AdamRule<C> rule) {
  const bool decay = rule.weight_decay != 0;
  LEAT_NO_OVERLAP
  for (int64_t i = 0; i < n; ++i) {
    const C p = load(var[i]) * rule.keep;
    C g = load(grad[i]);
    if (decay) g = g + rule.weight_decay * p;
    const C first = rule.beta_1 * load(m[i]) + rule.one_minus_beta_1 * g;
    const C second = rule.beta_2 * load(v[i]) + rule.one_minus_beta_2 * g * g;
    const C denominator = std::sqrt(second) / rule.correction_2_root + rule.epsilon;
    store(m[i], first);
    store(v[i], second);
    store(var[i], p - rule.step_size * first / denominator);
  }
}

// The float and double loops stand in functions of their own, which are cloned; the halves are not.
LEAT_VECTOR_CLONES void run_sgd(float* p, const float* g, int64_t n, const SgdRule<float>& rule) {
  sgd_loop(p, g, n, rule);
}
LEAT_VECTOR_CLONES void run_sgd(double* p, const double* g, int64_t n,
                                const SgdRule<double>& rule) {
  sgd_loop(p, g, n, rule);
}
template <typename T>
void run_sgd(T* p, const T* g, int64_t n, const SgdRule<float>& rule) {
  sgd_loop(p, g, n, rule);
}

LEAT_VECTOR_CLONES void run_momentum(float* p, float* u, const float* g, int64_t n,
                                     const MomentumRule<float>& rule) {
  momentum_loop(p, u, g, n, rule);
}
LEAT_VECTOR_CLONES void run_momentum(double* p, double* u, const double* g, int64_t n,
                                     const MomentumRule<double>& rule) {
  momentum_loop(p, u, g, n, rule);
}
template <typename T>
void run_momentum(T* p, T* u, const T* g, int64_t n, const MomentumRule<float>& rule) {
  momentum_loop(p, u, g, n, rule);
}

LEAT_VECTOR_CLONES void run_adam(float* p, float* m, float* v, const float* g, int64_t n,
                                 const AdamRule<float>& rule) {
  constexpr int64_t kLine = 16;
  int64_t i = 0;
  for (; i + kLine <= n; i += kLine) {
    for (const float* stream : {p, m, v}) prefetch_ahead(stream + i);
    prefetch_ahead(g + i);
    adam_loop(p + i, m + i, v + i, g + i, kLine, rule);
  }
  adam_loop(p + i, m + i, v + i, g + i, n - i, rule);
}
LEAT_VECTOR_CLONES void run_adam(double* p, double* m, double* v, const double* g, int64_t n,
                                 const AdamRule<double>& rule) {
  adam_loop(p, m, v, g, n, rule);
}
template <typename T>
void run_adam(T* p, T* m, T* v, const T* g, int64_t n, const AdamRule<float>& rule) {
  adam_loop(p, m, v, g, n, rule);
}

// ---------------------------------------------------------------------------------------------
// Kernels

// What all of them know when they are made.
struct Hyperparameters {
  int64_t elements = 0;
  double weight_decay = 0, momentum = 0, beta_1 = 0, beta_2 = 0, epsilon = 0;
  bool nesterov = false, decoupled = false;
  std::string subject;
};

Hyperparameters hyperparameters(const KernelSetup& setup) {
  const Attrs& attrs = setup.attrs();
  Hyperparameters h;
  h.elements = setup.input(0).shape.elements();
  h.weight_decay = attr_float(attrs, "weight_decay");
  h.momentum = attr_float(attrs, "momentum");
  h.beta_1 = attr_float(attrs, "beta_1");
  h.beta_2 = attr_float(attrs, "beta_2");
  h.epsilon = attr_float(attrs, "epsilon");
  h.nesterov = attr_int(attrs, "nesterov") != 0;
  h.subject = setup.subject;
  return h;
}

// Element `begin` of the variable that input i is.
template <typename T>
T* slot(const KernelContext& context, int i, int64_t begin) {
  return static_cast<T*>(context.inputs[i]) + begin;
}

template <typename T>
Progress sgd_tile(const Hyperparameters& h, KernelContext& context, ElementRange range) {
  using C = Arithmetic<T>;
  const SgdRule<C> rule{load(*context.in<T>(2)), static_cast<C>(h.weight_decay)};
  run_sgd(slot<T>(context, 0, range.begin), context.in<T>(1) + range.begin, range.end - range.begin,
          rule);
  return Progress::done;
}

template <typename T>
Progress momentum_tile(const Hyperparameters& h, KernelContext& context, ElementRange range) {
  using C = Arithmetic<T>;
  const MomentumRule<C> rule{load(*context.in<T>(3)), static_cast<C>(h.weight_decay),
                             static_cast<C>(h.momentum), h.nesterov};
  run_momentum(slot<T>(context, 0, range.begin), slot<T>(context, 1, range.begin),
               context.in<T>(2) + range.begin, range.end - range.begin, rule);
  return Progress::done;
}

// The rule of update number t, counted from 1.
template <typename C>
AdamRule<C> adam_rule(const Hyperparameters& h, double lr, double t) {
  const double correction_1 = 1 - std::pow(h.beta_1, t);
  const double correction_2 = 1 - std::pow(h.beta_2, t);
  AdamRule<C> rule;
  rule.beta_1 = static_cast<C>(h.beta_1);
  rule.one_minus_beta_1 = static_cast<C>(1 - h.beta_1);
  rule.beta_2 = static_cast<C>(h.beta_2);
  rule.one_minus_beta_2 = static_cast<C>(1 - h.beta_2);
  rule.epsilon = static_cast<C>(h.epsilon);
  rule.weight_decay = static_cast<C>(h.decoupled ? 0 : h.weight_decay);
  rule.keep = static_cast<C>(h.decoupled ? 1 - lr * h.weight_decay : 1);
  rule.step_size = static_cast<C>(lr / correction_1);
  rule.correction_2_root = static_cast<C>(std::sqrt(correction_2));
  return rule;
}

template <typename T>
Progress adam_tile(const Hyperparameters& h, KernelContext& context, ElementRange range) {
  using C = Arithmetic<T>;
  const int64_t step = *context.in<int64_t>(5);
  if (step < 0) {
    context.step->fail(context.instruction,
                       invalid_argument(cat(h.subject, ": step: expected >= 0, received ", step)));
    return Progress::failed;
  }
  const auto rule = adam_rule<C>(h, load(*context.in<T>(4)), static_cast<double>(step) + 1);
  run_adam(slot<T>(context, 0, range.begin), slot<T>(context, 1, range.begin),
           slot<T>(context, 2, range.begin), context.in<T>(3) + range.begin,
           range.end - range.begin, rule);
  return Progress::done;
}

// tile(T{}, hyperparameters, context, range), in tiles over the elements of the variable.
template <typename Tile>
std::unique_ptr<Kernel> make_apply(const KernelSetup& setup, Hyperparameters h, Tile tile) {
  const auto make = [&](auto zero) {
    return make_tiled_kernel(element_tiles(h.elements), [=](KernelContext& context, int index) {
      return tile(zero, h, context, element_range(h.elements, index));
    });
  };
  switch (setup.input(0).dtype) {
    case DType::f64:
      return make(double{});
    case DType::f16:
      return make(Half{});
    case DType::bf16:
      return make(BFloat16{});
    default:
      return make(float{});
  }
}

Result<std::unique_ptr<Kernel>> make_sgd(const KernelSetup& setup) {
  LEAT_RETURN_IF_ERROR(check_fits(setup, 1));
  return make_apply(setup, hyperparameters(setup),
                    [](auto zero, auto&&... rest) { return sgd_tile<decltype(zero)>(rest...); });
}

Result<std::unique_ptr<Kernel>> make_momentum(const KernelSetup& setup) {
  LEAT_RETURN_IF_ERROR(check_fits(setup, 2));
  return make_apply(setup, hyperparameters(setup), [](auto zero, auto&&... rest) {
    return momentum_tile<decltype(zero)>(rest...);
  });
}

Result<std::unique_ptr<Kernel>> make_adam(const KernelSetup& setup, bool decoupled) {
  LEAT_RETURN_IF_ERROR(check_fits(setup, 3));
  Hyperparameters h = hyperparameters(setup);
  h.decoupled = decoupled;
  return make_apply(setup, std::move(h),
                    [](auto zero, auto&&... rest) { return adam_tile<decltype(zero)>(rest...); });
}

Op adam_op(std::string_view name, double weight_decay, bool decoupled) {
  return Op(name)
      .input("var", "resource")
      .input("m", "resource")
      .input("v", "resource")
      .input("grad", "T")
      .input("lr", "T")
      .input("step", "int64")
      .optional_output("done", "token")
      .type("T", kFloats)
      .attr("beta_1", 0.9)
      .attr("beta_2", 0.999)
      .attr("epsilon", 1e-8)
      .attr("weight_decay", weight_decay)
      .writes(0)
      .writes(1)
      .writes(2)
      .infer(infer_adam)
      .kernel("cpu", [decoupled](const KernelSetup& setup) { return make_adam(setup, decoupled); });
}

}  // namespace

void register_optimizer_ops(Catalogue& catalogue) {
  catalogue.add(Op("leat.ApplySgd")
                    .input("var", "resource")
                    .input("grad", "T")
                    .input("lr", "T")
                    .optional_output("done", "token")
                    .type("T", kFloats)
                    .attr("weight_decay", 0.0)
                    .writes(0)
                    .infer(infer_sgd)
                    .kernel("cpu", make_sgd));
  catalogue.add(Op("leat.ApplyMomentum")
                    .input("var", "resource")
                    .input("velocity", "resource")
                    .input("grad", "T")
                    .input("lr", "T")
                    .optional_output("done", "token")
                    .type("T", kFloats)
                    .attr_required("momentum", "float")
                    .attr("nesterov", int64_t{0})
                    .attr("weight_decay", 0.0)
                    .writes(0)
                    .writes(1)
                    .infer(infer_momentum)
                    .kernel("cpu", make_momentum));
  catalogue.add(adam_op("leat.ApplyAdam", 0.0, false));
  catalogue.add(adam_op("leat.ApplyAdamW", 0.01, true));
}

}  // namespace leat
