// CPU kernels of ops/definitions/math_unary.cc.
#include <cmath>
#include <limits>

#include "ops/cpu/cpu_kernels.h"
#include "ops/cpu/elementwise_loops.h"
#include "ops/elements/unary.h"

namespace leat {
namespace {

using elementwise::AbsOf;
using elementwise::CeilOf;
using elementwise::Compute;
using elementwise::CosOf;
using elementwise::ErfOf;
using elementwise::ExpOf;
using elementwise::FloorOf;
using elementwise::load;
using elementwise::LogOf;
using elementwise::NegOf;
using elementwise::ReciprocalOf;
using elementwise::RoundOf;
using elementwise::SignOf;
using elementwise::SinOf;
using elementwise::SqrtOf;
using elementwise::store;
using elementwise::unary_floats;
using elementwise::unary_numbers;
using elementwise::unary_signed;
// The cloned loops of f32. Log, Sin and Cos have none: they are calls of the C library, which the
// compiler does not vectorize.
LEAT_FAST_UNARY(neg_f32, NegOf)
LEAT_FAST_UNARY(abs_f32, AbsOf)
LEAT_FAST_UNARY(sign_f32, SignOf)
LEAT_FAST_UNARY(reciprocal_f32, ReciprocalOf)
LEAT_FAST_UNARY(sqrt_f32, SqrtOf)
LEAT_FAST_UNARY(exp_f32, ExpOf)
LEAT_FAST_UNARY(erf_f32, ErfOf)
LEAT_FAST_UNARY(floor_f32, FloorOf)
LEAT_FAST_UNARY(ceil_f32, CeilOf)
// --- Clip ------------------------------------------------------------------------------------

// The bounds are scalars that may be absent. If min > max, every element becomes max, as in numpy.
template <typename T>
LEAT_INLINE void clip_loop(void* out, const void* const* x, const int64_t* steps, int64_t n,
                           const double*) {
  using C = Compute<T>;
  const T* a = static_cast<const T*>(x[0]);
  T* y = static_cast<T*>(out);
  const bool has_low = x[1] != nullptr, has_high = x[2] != nullptr;
  const C low = has_low ? load(*static_cast<const T*>(x[1])) : C{};
  const C high = has_high ? load(*static_cast<const T*>(x[2])) : C{};
  const int64_t s = steps[0];
  LEAT_NO_OVERLAP
  for (int64_t i = 0; i < n; ++i) {
    // The comparisons are false for a NaN, so it passes through.
    C v = load(a[i * s]);
    v = has_low && v < low ? low : v;
    v = has_high && v > high ? high : v;
    y[i] = store<T>(v);
  }
}

// x has the shape of y, so its step is 1 after the axes are merged; the constant lets the compiler
// vectorize the loop. The bounds are single elements and have no steps.
LEAT_VECTOR_CLONES void clip_f32(void* y, const void* const* x, const int64_t*, int64_t n,
                                 const double* p) {
  const int64_t one[] = {1};
  clip_loop<float>(y, x, one, n, p);
}

// dy if low <= x <= high, else 0.
template <typename T>
LEAT_INLINE void clip_grad_loop(void* out, const void* const* x, const int64_t* s, int64_t n,
                                const double*) {
  using C = Compute<T>;
  const T* dy = static_cast<const T*>(x[0]);
  const T* a = static_cast<const T*>(x[1]);
  T* dx = static_cast<T*>(out);
  const bool has_low = x[2] != nullptr, has_high = x[3] != nullptr;
  const C low = has_low ? load(*static_cast<const T*>(x[2])) : C{};
  const C high = has_high ? load(*static_cast<const T*>(x[3])) : C{};
  LEAT_NO_OVERLAP
  for (int64_t i = 0; i < n; ++i) {
    const C v = load(a[i * s[1]]), d = load(dy[i * s[0]]);
    // A NaN is not outside, so its gradient is dy.
    const bool outside = (has_low && v < low) || (has_high && v > high);
    dx[i] = store<T>(outside ? C{0} : d);
  }
}

LEAT_VECTOR_CLONES void clip_grad_f32(void* y, const void* const* x, const int64_t*, int64_t n,
                                      const double* p) {
  const int64_t one[] = {1, 1};
  clip_grad_loop<float>(y, x, one, n, p);
}

// The dtypes of Clip have no bool, for which no loop exists.
Result<std::unique_ptr<Kernel>> make_clip(const KernelSetup& setup) {
  KernelSetup all = setup;
  all.types.inputs.resize(3);  // absent bounds are null operands
  const DType dtype = setup.output(0).dtype;
  const bool flat = dtype == DType::f32;
  const Loop loop = flat ? clip_f32 : dispatch_dtype(dtype, [](auto tag) -> Loop {
    if constexpr (std::is_same_v<decltype(tag), bool>)
      return nullptr;
    else
      return clip_loop<decltype(tag)>;
  });
  return make_elementwise(all, loop);
}

Result<std::unique_ptr<Kernel>> make_clip_grad(const KernelSetup& setup) {
  KernelSetup all = setup;
  // Absent bounds become operands that are not present, which the loop sees as null.
  all.types.inputs.resize(4);
  Loop loop = nullptr;
  switch (setup.output(0).dtype) {
    case DType::f32:
      loop = clip_grad_f32;
      break;
    case DType::f64:
      loop = clip_grad_loop<double>;
      break;
    case DType::f16:
      loop = clip_grad_loop<Half>;
      break;
    case DType::bf16:
      loop = clip_grad_loop<BFloat16>;
      break;
    default:
      break;
  }
  return make_elementwise(all, loop);
}

}  // namespace

void add_math_unary_kernels(Catalogue& catalogue) {
  catalogue.add_kernel("Neg", "cpu", loop_kernel(unary_signed<NegOf>, neg_f32));
  catalogue.add_kernel("Abs", "cpu", loop_kernel(unary_numbers<AbsOf>, abs_f32));
  catalogue.add_kernel("Sign", "cpu", loop_kernel(unary_numbers<SignOf>, sign_f32));
  catalogue.add_kernel("Reciprocal", "cpu",
                       loop_kernel(unary_floats<ReciprocalOf>, reciprocal_f32));
  catalogue.add_kernel("Sqrt", "cpu", loop_kernel(unary_floats<SqrtOf>, sqrt_f32));
  catalogue.add_kernel("Exp", "cpu", loop_kernel(unary_floats<ExpOf>, exp_f32));
  catalogue.add_kernel("Log", "cpu", loop_kernel(unary_floats<LogOf>, nullptr));
  catalogue.add_kernel("Sin", "cpu", loop_kernel(unary_floats<SinOf>, nullptr));
  catalogue.add_kernel("Cos", "cpu", loop_kernel(unary_floats<CosOf>, nullptr));
  catalogue.add_kernel("Erf", "cpu", loop_kernel(unary_floats<ErfOf>, erf_f32));
  catalogue.add_kernel("Floor", "cpu", loop_kernel(unary_floats<FloorOf>, floor_f32));
  catalogue.add_kernel("Ceil", "cpu", loop_kernel(unary_floats<CeilOf>, ceil_f32));
  catalogue.add_kernel("Round", "cpu", loop_kernel(unary_floats<RoundOf>, nullptr));
  catalogue.add_kernel("Clip", "cpu", make_clip);
  catalogue.add_kernel("leat.ClipGrad", "cpu", make_clip_grad);
}

}  // namespace leat
