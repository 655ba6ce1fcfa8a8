// CPU kernels of ops/definitions/optimizer.cc.
#include <cmath>
#include <type_traits>

#include "devices/base/text.h"
#include "ops/cpu/cpu_kernels.h"
#include "ops/cpu/element_kernel.h"
#include "ops/cpu/guarded_kernel.h"
#include "ops/cpu/prefetch.h"
#include "ops/cpu/row_sum.h"
#include "ops/cpu/vectorize.h"
#include "ops/definitions/variable.h"

namespace leat {
namespace {

// ---------------------------------------------------------------------------------------------
// Loops over elements of type T, with arithmetic in C: T itself, or float for f16 and bf16.

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
// g' = g + weight_decay * p; p -= lr * g'.
template <typename C>
struct SgdRule {
  C lr, weight_decay;
};

template <typename T, typename C>
LEAT_INLINE void sgd_loop(T* var, const T* grad, int64_t n, SgdRule<C> rule) {
  // As in PyTorch, a decay of 0 adds no term: 0 * p would make NaN of an infinite weight.
  const bool decay = rule.weight_decay != 0;
  LEAT_NO_OVERLAP
  for (int64_t i = 0; i < n; ++i) {
    const C p = load(var[i]);
    C g = load(grad[i]);
    if (decay) g = g + rule.weight_decay * p;
    store(var[i], p - rule.lr * g);
  }
}

// u = momentum * u + g'; p -= lr * u, or, for Nesterov, p -= lr * (g' + momentum * u).
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

// m = beta_1 m + (1 - beta_1) g; v = beta_2 v + (1 - beta_2) g^2; p -= step_size * m / (sqrt(v) /
// correction_2_root + epsilon).
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

// The float and double loops are functions of their own, so that they can be cloned; those for f16
// and bf16 are not cloned.
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
  // The floats of a cache line. Each iteration requests a line of each of the four streams,
  // kPrefetchDistance bytes ahead.
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

// The parameters that all kernels of the family know when they are made. An attribute that an op
// does not have is 0.
struct Hyperparameters {
  int64_t elements = 0;
  double weight_decay = 0, momentum = 0, beta_1 = 0, beta_2 = 0, epsilon = 0;
  bool nesterov = false, decoupled = false, lazy = false;
  std::string subject;
};

// h.decoupled is not an attribute: it is what separates AdamW from Adam, and make_apply() sets it.
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
  h.lazy = attr_int(attrs, "lazy") != 0;
  h.subject = setup.subject;
  return h;
}

// The kernels below are templates over an update of elements of type T:
//   bool prepare(h, context)           once for each tile, from the learning rate; false: failed
//   void run(begin, grad, n)           of elements [begin, begin + n) of the variable
//   static constexpr int kGrad, kIds   which inputs the gradient is, and its ids if it has some

// The elements of the variable that is input i.
template <typename T>
T* slot(const KernelContext& context, int i) {
  return static_cast<T*>(context.inputs[i]);
}

template <typename T>
struct SgdUpdate {
  static constexpr int kGrad = 1, kIds = 3;
  T* var;
  SgdRule<Arithmetic<T>> rule;

  bool prepare(const Hyperparameters& h, KernelContext& context) {
    using C = Arithmetic<T>;
    var = slot<T>(context, 0);
    rule = {load(*context.in<T>(2)), static_cast<C>(h.weight_decay)};
    return true;
  }
  void run(int64_t begin, const T* grad, int64_t n) const { run_sgd(var + begin, grad, n, rule); }
};

template <typename T>
struct MomentumUpdate {
  static constexpr int kGrad = 2, kIds = 4;
  T *var, *velocity;
  MomentumRule<Arithmetic<T>> rule;

  bool prepare(const Hyperparameters& h, KernelContext& context) {
    using C = Arithmetic<T>;
    var = slot<T>(context, 0);
    velocity = slot<T>(context, 1);
    rule = {load(*context.in<T>(3)), static_cast<C>(h.weight_decay), static_cast<C>(h.momentum),
            h.nesterov};
    return true;
  }
  void run(int64_t begin, const T* grad, int64_t n) const {
    run_momentum(var + begin, velocity + begin, grad, n, rule);
  }
};

// The rule of update number t, counted from 1. The bias corrections are computed in double and
// rounded once.
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
struct AdamUpdate {
  static constexpr int kGrad = 3, kIds = 6;
  T *var, *m, *v;
  AdamRule<Arithmetic<T>> rule;

  bool prepare(const Hyperparameters& h, KernelContext& context) {
    // Input 5 counts steps from 0; the rule counts updates from 1.
    const int64_t step = *context.in<int64_t>(5);
    if (step < 0) {
      context.step->fail(
          context.instruction,
          invalid_argument(cat(h.subject, ": step: expected >= 0, received ", step)));
      return false;
    }
    var = slot<T>(context, 0);
    m = slot<T>(context, 1);
    v = slot<T>(context, 2);
    rule = adam_rule<Arithmetic<T>>(h, load(*context.in<T>(4)), static_cast<double>(step) + 1);
    return true;
  }
  void run(int64_t begin, const T* grad, int64_t n) const {
    run_adam(var + begin, m + begin, v + begin, grad, n, rule);
  }
};

// Updates tiles over the elements of the variable.
template <typename T, template <typename> class Update>
std::unique_ptr<Kernel> apply_to_all(const Hyperparameters& h) {
  return make_element_kernel(h.elements, [h](KernelContext& context, ElementRange range) {
    Update<T> update;
    if (!update.prepare(h, context)) return Progress::failed;
    update.run(range.begin, context.in<T>(Update<T>::kGrad) + range.begin, range.end - range.begin);
    return Progress::done;
  });
}

// True if the gradient of a row is all zero, also -0. A NaN is not zero.
template <typename T>
bool all_zero(const T* x, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    if (!(load(x[i]) == 0)) return false;
  }
  return true;
}

// A lazy update from a dense gradient, in tiles over the rows of the variable.
template <typename T, template <typename> class Update>
std::unique_ptr<Kernel> apply_to_some(const Hyperparameters& h, int64_t rows) {
  const int64_t width = rows > 0 ? h.elements / rows : 0;
  const int64_t block = default_tile_rows(rows, width);
  return make_tiled_kernel(tile_count(rows, block), [=](KernelContext& context, int tile) {
    Update<T> update;
    if (!update.prepare(h, context)) return Progress::failed;
    const T* grad = context.in<T>(Update<T>::kGrad);
    for (int64_t row = tile * block, end = std::min(rows, row + block); row < end; ++row) {
      const int64_t at = row * width;
      if (!all_zero(grad + at, width)) update.run(at, grad + at, width);
    }
    return Progress::done;
  });
}

// An update from a gradient of rows: phase 0 sorts its ids, phase 1 updates the touched rows.
template <typename T, template <typename> class Update>
class ApplyRowsKernel final : public Kernel {
 public:
  ApplyRowsKernel(Hyperparameters h, RowSum sum)
      : h_(std::move(h)),
        sum_(std::move(sum)),
        block_(default_tile_rows(sum_.ids(), sum_.width())) {}
  int phases() const override { return 2; }
  // At most as many rows are touched as there are ids. If they are fewer, the last tiles do
  // nothing.
  int tiles(int phase) const override { return phase == 0 ? 1 : tile_count(sum_.ids(), block_); }
  size_t workspace_bytes() const override { return sum_.workspace_bytes(); }
  size_t scratch_bytes() const override { return sum_.scratch_bytes(); }

  Progress run(KernelContext& context, int phase, int tile) override {
    if (phase == 0) return sum_.sort(context);
    Update<T> update;
    if (!update.prepare(h_, context)) return Progress::failed;
    const int64_t begin = tile * block_, end = std::min(sum_.touched(context), begin + block_);
    for (int64_t i = begin; i < end; ++i) {
      // The sum is in the scratch memory of this thread, and is valid until the next row.
      const T* grad = sum_.template sum<T>(context, i);
      if (h_.lazy && all_zero(grad, sum_.width())) continue;
      update.run(sum_.row(context, i) * sum_.width(), grad, sum_.width());
    }
    return Progress::done;
  }

 private:
  const Hyperparameters h_;
  const RowSum sum_;
  const int64_t block_;
};

// Chooses between the three kernels: a gradient of rows, a lazy update, or an update of all
// elements.
template <typename T, template <typename> class Update>
Result<std::unique_ptr<Kernel>> make_apply_of(const KernelSetup& setup, const Hyperparameters& h) {
  constexpr int kGrad = Update<T>::kGrad;
  const Shape& var = setup.input(0).shape;
  constexpr int kIds = Update<T>::kIds;
  if (setup.types.has_input(kIds)) {
    LEAT_ASSIGN_OR_RETURN(RowSum sum,
                          RowSum::make(setup, kGrad, kIds, var[0], var.elements(1, var.rank())));
    return std::unique_ptr<Kernel>(std::make_unique<ApplyRowsKernel<T, Update>>(h, std::move(sum)));
  }
  LEAT_RETURN_IF_ERROR(check_fits(setup, kGrad));
  if (h.lazy) return apply_to_some<T, Update>(h, var.rank() > 0 ? var[0] : 1);
  return apply_to_all<T, Update>(h);
}

template <template <typename> class Update>
Result<std::unique_ptr<Kernel>> make_apply(const KernelSetup& setup, bool decoupled = false) {
  Hyperparameters h = hyperparameters(setup);
  h.decoupled = decoupled;
  // The guard is the last input, behind the ids.
  constexpr int kGuardInput = Update<float>::kIds + 1;
  switch (setup.input(0).dtype) {
    case DType::f64:
      return guarded(setup, kGuardInput, make_apply_of<double, Update>(setup, h));
    case DType::f16:
      return guarded(setup, kGuardInput, make_apply_of<Half, Update>(setup, h));
    case DType::bf16:
      return guarded(setup, kGuardInput, make_apply_of<BFloat16, Update>(setup, h));
    default:
      return guarded(setup, kGuardInput, make_apply_of<float, Update>(setup, h));
  }
}

}  // namespace

void add_optimizer_kernels(Catalogue& catalogue) {
  catalogue.add_kernel("leat.ApplySgd", "cpu",
                       [](const KernelSetup& setup) { return make_apply<SgdUpdate>(setup); });
  catalogue.add_kernel("leat.ApplyMomentum", "cpu",
                       [](const KernelSetup& setup) { return make_apply<MomentumUpdate>(setup); });
  catalogue.add_kernel("leat.ApplyAdam", "cpu", [](const KernelSetup& setup) {
    return make_apply<AdamUpdate>(setup, false);
  });
  catalogue.add_kernel("leat.ApplyAdamW", "cpu", [](const KernelSetup& setup) {
    return make_apply<AdamUpdate>(setup, true);
  });
}

}  // namespace leat
