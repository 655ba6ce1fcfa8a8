// CPU kernels of ops/definitions/math.cc.
#include <cmath>
#include <limits>

#include "ops/cpu/cpu_kernels.h"
#include "ops/cpu/elementwise_loops.h"
#include "ops/elements/arithmetic.h"

namespace leat {
namespace {

using elementwise::AddOf;
using elementwise::binary_loop;
using elementwise::binary_numbers;
using elementwise::Compute;
using elementwise::DivOf;
using elementwise::FmodOf;
using elementwise::load;
using elementwise::MaxOf;
using elementwise::MinOf;
using elementwise::ModOf;
using elementwise::MulOf;
using elementwise::power;
using elementwise::PowGradOf;
using elementwise::PowOf;
using elementwise::saturate;
using elementwise::store;
using elementwise::SubOf;
using elementwise::unary_loop;
struct CopyOf {
  template <typename T>
  LEAT_INLINE static T apply(T a, const double*) {
    return a;
  }
};

LEAT_FAST_BINARY(add_f32, AddOf)
LEAT_FAST_BINARY(sub_f32, SubOf)
LEAT_FAST_BINARY(mul_f32, MulOf)
LEAT_FAST_BINARY(div_f32, DivOf)
LEAT_FAST_BINARY(max_f32, MaxOf)
LEAT_FAST_BINARY(min_f32, MinOf)
// --- Pow -------------------------------------------------------------------------------------

// An exponent of another dtype is computed in double.
template <typename T, typename E>
void mixed_pow_loop(void* out, const void* const* x, const int64_t* steps, int64_t n,
                    const double*) {
  const T* a = static_cast<const T*>(x[0]);
  const E* b = static_cast<const E*>(x[1]);
  for (int64_t i = 0; i < n; ++i) {
    const auto base = static_cast<double>(load(a[i * steps[0]]));
    const auto exponent = static_cast<double>(load(b[i * steps[1]]));
    static_cast<T*>(out)[i] = store<T>(saturate<Compute<T>>(std::pow(base, exponent)));
  }
}

// A single exponent for all elements: common ones avoid pow(). The shape of the whole operand
// decides, never that of a tile, so that tiles do not change bits.
template <typename T>
void uniform_pow_loop(void* out, const void* const* x, const int64_t* steps, int64_t n,
                      const double*) {
  const T* a = static_cast<const T*>(x[0]);
  T* y = static_cast<T*>(out);
  const Compute<T> e = load(*static_cast<const T*>(x[1]));
  const auto each = [&](auto f) {
    for (int64_t i = 0; i < n; ++i) y[i] = store<T>(f(load(a[i * steps[0]])));
  };
  using C = Compute<T>;
  if (e == C{2}) return each([](C v) { return elementwise::wrap_mul(v, v); });
  if (e == C{3})
    return each([](C v) { return elementwise::wrap_mul(elementwise::wrap_mul(v, v), v); });
  if constexpr (std::is_floating_point_v<C>) {
    // As pow() has it, the root of -0 is 0, and that of -infinity is infinity.
    if (e == C{0.5}) {
      constexpr C kInfinity = std::numeric_limits<C>::infinity();
      return each([](C v) { return v == -kInfinity ? kInfinity : std::sqrt(v + C{0}); });
    }
    if (e == C{-1}) return each([](C v) { return C{1} / v; });
  }
  each([e](C v) { return power(v, e); });
}

Loop pow_loop(DType base, DType exponent, bool uniform) {
  Loop loop = nullptr;
  const auto of_base = [&](auto tag) {
    using T = decltype(tag);
    if (base == exponent) {
      loop = uniform ? uniform_pow_loop<T> : binary_loop<PowOf, T>;
      return;
    }
    loop = dispatch_dtype(exponent, [](auto e) -> Loop {
      if constexpr (std::is_same_v<decltype(e), bool>)
        return nullptr;
      else
        return mixed_pow_loop<T, decltype(e)>;
    });
  };
  switch (base) {
    case DType::f32:
      of_base(float{});
      break;
    case DType::f64:
      of_base(double{});
      break;
    case DType::f16:
      of_base(Half{});
      break;
    case DType::bf16:
      of_base(BFloat16{});
      break;
    case DType::i32:
      of_base(int32_t{});
      break;
    case DType::i64:
      of_base(int64_t{});
      break;
    default:
      break;
  }
  return loop;
}

template <typename T>
void pow_grad_loop(void* out, const void* const* x, const int64_t* s, int64_t n, const double*) {
  const T* dy = static_cast<const T*>(x[0]);
  const T* base = static_cast<const T*>(x[1]);
  const T* exponent = static_cast<const T*>(x[2]);
  for (int64_t i = 0; i < n; ++i) {
    static_cast<T*>(out)[i] = store<T>(
        PowGradOf::apply(load(dy[i * s[0]]), load(base[i * s[1]]), load(exponent[i * s[2]])));
  }
}

Loop pick_pow_grad(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return pow_grad_loop<float>;
    case DType::f64:
      return pow_grad_loop<double>;
    case DType::f16:
      return pow_grad_loop<Half>;
    case DType::bf16:
      return pow_grad_loop<BFloat16>;
    default:
      return nullptr;
  }
}

// The kernel of a binary op for all numbers; `fast` is the cloned loop of f32.
template <typename F>
KernelFactory binary_kernel(Loop fast) {
  return [fast](const KernelSetup& setup) {
    return make_elementwise(setup, binary_numbers<F>(setup.output(0).dtype, fast), {}, fast);
  };
}

// The kernel of an op with any number of inputs, folded from left to right.
template <typename F>
KernelFactory fold_kernel(Loop fast) {
  return [fast](const KernelSetup& setup) {
    const Loop copy = dispatch_dtype(
        setup.output(0).dtype, [](auto tag) -> Loop { return unary_loop<CopyOf, decltype(tag)>; });
    return make_elementwise_fold(setup, binary_numbers<F>(setup.output(0).dtype, fast), copy, fast);
  };
}

Result<std::unique_ptr<Kernel>> make_div(const KernelSetup& setup) {
  return make_elementwise_division(setup, binary_numbers<DivOf>(setup.output(0).dtype, div_f32), 1,
                                   div_f32);
}

Result<std::unique_ptr<Kernel>> make_mod(const KernelSetup& setup) {
  const DType dtype = setup.output(0).dtype;
  const bool fmod = attr_int(setup.attrs(), "fmod") != 0;
  return make_elementwise_division(
      setup, fmod ? binary_numbers<FmodOf>(dtype) : binary_numbers<ModOf>(dtype), 1);
}

Result<std::unique_ptr<Kernel>> make_pow(const KernelSetup& setup) {
  // A single exponent may be a constant or a value of the step: the loop reads it when it runs.
  const bool uniform = setup.input(1).shape.elements() == 1;
  return make_elementwise(setup, pow_loop(setup.input(0).dtype, setup.input(1).dtype, uniform));
}

}  // namespace

void add_math_kernels(Catalogue& catalogue) {
  catalogue.add_kernel("Add", "cpu", binary_kernel<AddOf>(add_f32));
  catalogue.add_kernel("Sub", "cpu", binary_kernel<SubOf>(sub_f32));
  catalogue.add_kernel("Mul", "cpu", binary_kernel<MulOf>(mul_f32));
  catalogue.add_kernel("Div", "cpu", make_div);
  catalogue.add_kernel("Mod", "cpu", make_mod);
  catalogue.add_kernel("Pow", "cpu", make_pow);
  catalogue.add_kernel("leat.PowGrad", "cpu", [](const KernelSetup& setup) {
    return make_elementwise(setup, pick_pow_grad(setup.output(0).dtype));
  });
  catalogue.add_kernel("Max", "cpu", fold_kernel<MaxOf>(max_f32));
  catalogue.add_kernel("Min", "cpu", fold_kernel<MinOf>(min_f32));
  catalogue.add_kernel("Sum", "cpu", fold_kernel<AddOf>(add_f32));
}

}  // namespace leat
