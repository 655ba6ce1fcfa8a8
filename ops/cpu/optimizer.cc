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
#include "ops/elements/optimizer_rules.h"

namespace leat {
namespace {

// ---------------------------------------------------------------------------------------------
// Loops over elements of type T, with arithmetic in C: T itself, or float for f16 and bf16.

LEAT_INLINE float load(float x) { return x; }
LEAT_INLINE double load(double x) { return x; }
LEAT_INLINE float load(Half x) { return to_float(x); }
LEAT_INLINE float load(BFloat16 x) { return to_float(x); }
LEAT_INLINE void store(float& to, float x) { to = x; }
LEAT_INLINE void store(double& to, double x) { to = x; }
LEAT_INLINE void store(Half& to, float x) { to = to_half(x); }
LEAT_INLINE void store(BFloat16& to, float x) { to = to_bfloat16(x); }

template <typename T, typename C>
LEAT_INLINE void sgd_loop(T* var, const T* grad, int64_t n, SgdRule<C> rule) {
  const bool decay = rule.weight_decay != 0;
  LEAT_NO_OVERLAP
  for (int64_t i = 0; i < n; ++i) store(var[i], rule.step(load(var[i]), load(grad[i]), decay));
}

template <typename T, typename C>
LEAT_INLINE void momentum_loop(T* var, T* velocity, const T* grad, int64_t n,
                               MomentumRule<C> rule) {
  const bool decay = rule.weight_decay != 0;
  LEAT_NO_OVERLAP
  for (int64_t i = 0; i < n; ++i) {
    C u = load(velocity[i]);
    const C p = rule.step(load(var[i]), u, load(grad[i]), decay);
    store(velocity[i], u);
    store(var[i], p);
  }
}

template <typename T, typename C>
LEAT_INLINE void adam_loop(T* var, T* m, T* v, const T* grad, int64_t n, AdamRule<C> rule) {
  const bool decay = rule.weight_decay != 0;
  LEAT_NO_OVERLAP
  for (int64_t i = 0; i < n; ++i) {
    C first = load(m[i]), second = load(v[i]);
    const C p = rule.step(load(var[i]), first, second, load(grad[i]), decay);
    store(m[i], first);
    store(v[i], second);
    store(var[i], p);
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
  double weight_decay = 0, momentum = 0;
  AdamConstants adam;
  bool nesterov = false, lazy = false;
  std::string subject;
};

// adam.decoupled is not an attribute: make_apply() sets it.
Hyperparameters hyperparameters(const KernelSetup& setup) {
  const Attrs& attrs = setup.attrs();
  Hyperparameters h;
  h.elements = setup.input(0).shape.elements();
  h.weight_decay = attr_float(attrs, "weight_decay");
  h.momentum = attr_float(attrs, "momentum");
  h.adam.weight_decay = h.weight_decay;
  h.adam.beta_1 = attr_float(attrs, "beta_1");
  h.adam.beta_2 = attr_float(attrs, "beta_2");
  h.adam.epsilon = attr_float(attrs, "epsilon");
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
    rule =
        AdamRule<Arithmetic<T>>::of(h.adam, load(*context.in<T>(4)), static_cast<double>(step) + 1);
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
  h.adam.decoupled = decoupled;
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
