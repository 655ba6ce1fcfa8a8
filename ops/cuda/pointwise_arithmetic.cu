// Add, Sub, Mul, Div, Mod, Pow, Max, Min, and the gradient of Pow.
#include "ops/cuda/pointwise.cuh"
#include "ops/elements/arithmetic.h"

namespace leat::cuda {
namespace {

using namespace elementwise;  // NOLINT: the functors

// Integers complain of a divisor of zero; the result is 0 then, and no caller sees it.
template <typename F, typename T, typename Y = T>
struct Division {
  static constexpr int kOperands = 2, kNeighbours = 1;
  __device__ static void apply(const PointwiseCall& call, int64_t i, const int64_t* at) {
    const auto b = operand<T>(call, 1, at[1]);
    if constexpr (std::is_integral_v<T>) {
      if (b == 0) {
        call.complaint->write(at[1], 0);
        return result<T>(call, i, T{0});
      }
    }
    result<T>(call, i, F::apply(operand<T>(call, 0, at[0]), b, call.params));
  }
};

// The cases of a single exponent for all elements, as on the CPU.
struct UniformPowOf {
  template <typename C>
  LEAT_INLINE static C apply(C v, C e, const double*) {
    if (e == C{2}) return wrap_mul(v, v);
    if (e == C{3}) return wrap_mul(wrap_mul(v, v), v);
    if constexpr (std::is_floating_point_v<C>) {
      constexpr C kInfinity = std::numeric_limits<C>::infinity();
      if (e == C{0.5}) return v == -kInfinity ? kInfinity : std::sqrt(v + C{0});
      if (e == C{-1}) return C{1} / v;
    }
    return power(v, e);
  }
};

// (dy, x, exponent)
template <typename F, typename T, typename Y = T>
struct Ternary {
  static constexpr int kOperands = 3, kNeighbours = 1;
  __device__ static void apply(const PointwiseCall& call, int64_t i, const int64_t* at) {
    result<T>(call, i,
              F::apply(operand<T>(call, 0, at[0]), operand<T>(call, 1, at[1]),
                       operand<T>(call, 2, at[2])));
  }
};

template <typename F>
PointwiseLaunch for_powers(DType dtype) {
  if (is_float(dtype)) return for_floats<Binary, F>(dtype);
  if (dtype == DType::i32) return launch_pointwise<Binary<F, int32_t>>;
  if (dtype == DType::i64) return launch_pointwise<Binary<F, int64_t>>;
  return nullptr;
}

constexpr PointwiseEntry kTable[] = {
    {"Add", for_numbers<Binary, AddOf>},       {"Sub", for_numbers<Binary, SubOf>},
    {"Mul", for_numbers<Binary, MulOf>},       {"Div", for_numbers<Division, DivOf>},
    {"Mod", for_numbers<Division, ModOf>},     {"Mod.fmod", for_numbers<Division, FmodOf>},
    {"Max", for_numbers<Binary, MaxOf>},       {"Min", for_numbers<Binary, MinOf>},
    {"Sum", for_numbers<Binary, AddOf>},       {"Pow", for_powers<PowOf>},
    {"Pow.uniform", for_powers<UniformPowOf>}, {"leat.PowGrad", for_floats<Ternary, PowGradOf>},
};

// The element of an exponent whose dtype is known when the kernel runs.
__device__ inline double exponent_at(const void* x, DType dtype, int64_t i) {
  switch (dtype) {
    case DType::f32:
      return static_cast<const float*>(x)[i];
    case DType::f64:
      return static_cast<const double*>(x)[i];
    case DType::f16:
      return load(static_cast<const Half*>(x)[i]);
    case DType::bf16:
      return load(static_cast<const BFloat16*>(x)[i]);
    case DType::i8:
      return static_cast<const int8_t*>(x)[i];
    case DType::i16:
      return static_cast<const int16_t*>(x)[i];
    case DType::i32:
      return static_cast<const int32_t*>(x)[i];
    case DType::i64:
      return static_cast<double>(static_cast<const int64_t*>(x)[i]);
    case DType::u8:
      return static_cast<const uint8_t*>(x)[i];
    case DType::u16:
      return static_cast<const uint16_t*>(x)[i];
    case DType::u32:
      return static_cast<const uint32_t*>(x)[i];
    default:
      return static_cast<double>(static_cast<const uint64_t*>(x)[i]);
  }
}

// An exponent of another dtype, whose number is params[0], is computed in double.
template <typename F, typename T, typename Y = T>
struct MixedPow {
  static constexpr int kOperands = 2, kNeighbours = 1;
  __device__ static void apply(const PointwiseCall& call, int64_t i, const int64_t* at) {
    const auto base = static_cast<double>(operand<T>(call, 0, at[0]));
    const auto dtype = static_cast<DType>(static_cast<int>(call.params[0]));
    result<T>(call, i, saturate<Compute<T>>(std::pow(base, exponent_at(call.x[1], dtype, at[1]))));
  }
};

}  // namespace

PointwiseLaunch find_arithmetic(std::string_view op, DType dtype) {
  return find_in(kTable, op, dtype);
}

PointwiseLaunch find_mixed_pow(DType base) {
  if (is_float(base)) return for_floats<MixedPow, void>(base);
  if (base == DType::i32) return launch_pointwise<MixedPow<void, int32_t>>;
  if (base == DType::i64) return launch_pointwise<MixedPow<void, int64_t>>;
  return nullptr;
}

}  // namespace leat::cuda
