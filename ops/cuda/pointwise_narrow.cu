// Casts from and to narrow types, and leat.Quantize and leat.Dequantize.
#include "ops/cuda/pointwise.cuh"
#include "ops/elements/quantize.h"

namespace leat::cuda {
namespace {

__device__ inline NarrowFormat format_of(double dtype) {
  return narrow_format(static_cast<DType>(static_cast<int>(dtype)));
}
__device__ inline uint8_t code_at(const PointwiseCall& call, int k, int64_t at) {
  return static_cast<const uint8_t*>(call.x[k])[at];
}
__device__ inline NarrowRules rules_of(double code) {
  const int rules = static_cast<int>(code);
  return {(rules & 1) != 0, static_cast<PowerRounding>(rules >> 1)};
}

// params: the narrow type.
template <typename To>
struct WidenNarrow {
  static constexpr int kOperands = 1, kNeighbours = 1;
  __device__ static void apply(const PointwiseCall& call, int64_t i, const int64_t* at) {
    const NarrowFormat format = format_of(call.params[0]);
    result<To>(call, i, elementwise::from_code<Compute<To>>(format, code_at(call, 0, at[0])));
  }
};

// params: the narrow type, and the rules.
template <typename From>
struct ToNarrow {
  static constexpr int kOperands = 1, kNeighbours = 1;
  __device__ static void apply(const PointwiseCall& call, int64_t i, const int64_t* at) {
    static_cast<uint8_t*>(call.y)[i] = elementwise::to_code(
        format_of(call.params[0]), operand<From>(call, 0, at[0]), rules_of(call.params[1]));
  }
};

// params: the type that is read and 32 times that which is written, and the rules.
struct NarrowToNarrow {
  static constexpr int kOperands = 1, kNeighbours = 1;
  __device__ static void apply(const PointwiseCall& call, int64_t i, const int64_t* at) {
    const int both = static_cast<int>(call.params[0]);
    const float value = narrow_value(format_of(both % 32), code_at(call, 0, at[0]));
    static_cast<uint8_t*>(call.y)[i] =
        narrow_code(format_of(both / 32), value, rules_of(call.params[1]));
  }
};

// params: the narrow type, and `saturate`.
template <typename From, typename To>
struct Quantize {
  static constexpr int kOperands = 2, kNeighbours = 1;
  __device__ static void apply(const PointwiseCall& call, int64_t i, const int64_t* at) {
    const To zero = static_cast<const To*>(call.x[1])[at[1]];
    static_cast<To*>(call.y)[i] = elementwise::quantized<To>(operand<From>(call, 0, at[0]), zero);
  }
};
template <typename From>
struct QuantizeNarrow {
  static constexpr int kOperands = 2, kNeighbours = 1;
  __device__ static void apply(const PointwiseCall& call, int64_t i, const int64_t* at) {
    static_cast<uint8_t*>(call.y)[i] =
        elementwise::quantized_code(format_of(call.params[0]), operand<From>(call, 0, at[0]),
                                    code_at(call, 1, at[1]), rules_of(call.params[1]));
  }
};

// An absent zero is 0. params: the narrow type.
template <typename From, typename To>
struct Dequantize {
  static constexpr int kOperands = 2, kNeighbours = 1;
  __device__ static void apply(const PointwiseCall& call, int64_t i, const int64_t* at) {
    const From* zeros = static_cast<const From*>(call.x[1]);
    const From x = static_cast<const From*>(call.x[0])[at[0]];
    result<To>(call, i, elementwise::dequantized<Compute<To>>(x, zeros ? zeros[at[1]] : From{0}));
  }
};
template <typename To>
struct DequantizeNarrow {
  static constexpr int kOperands = 2, kNeighbours = 1;
  __device__ static void apply(const PointwiseCall& call, int64_t i, const int64_t* at) {
    const NarrowFormat format = format_of(call.params[0]);
    const float by = call.x[1] ? narrow_value(format, code_at(call, 1, at[1])) : 0.f;
    const float x = narrow_value(format, code_at(call, 0, at[0]));
    result<To>(call, i, elementwise::dequantized<Compute<To>>(x, by));
  }
};

template <typename From>
PointwiseLaunch quantize_from(DType to) {
  switch (to) {
    case DType::i8:
      return launch_pointwise<Quantize<From, int8_t>>;
    case DType::u8:
      return launch_pointwise<Quantize<From, uint8_t>>;
    case DType::i16:
      return launch_pointwise<Quantize<From, int16_t>>;
    case DType::u16:
      return launch_pointwise<Quantize<From, uint16_t>>;
    default:
      return is_narrow(to) ? launch_pointwise<QuantizeNarrow<From>> : nullptr;
  }
}

template <typename To>
PointwiseLaunch dequantize_to(DType from) {
  switch (from) {
    case DType::i8:
      return launch_pointwise<Dequantize<int8_t, To>>;
    case DType::u8:
      return launch_pointwise<Dequantize<uint8_t, To>>;
    case DType::i16:
      return launch_pointwise<Dequantize<int16_t, To>>;
    case DType::u16:
      return launch_pointwise<Dequantize<uint16_t, To>>;
    case DType::i32:
      return launch_pointwise<Dequantize<int32_t, To>>;
    default:
      return is_narrow(from) ? launch_pointwise<DequantizeNarrow<To>> : nullptr;
  }
}

}  // namespace

PointwiseLaunch find_narrow_cast(DType from, DType to) {
  if (is_narrow(from) && is_narrow(to)) return launch_pointwise<NarrowToNarrow>;
  if (is_narrow(from))
    return launch_for(to, [](auto y) { return launch_pointwise<WidenNarrow<decltype(y)>>; });
  return launch_for(from, [](auto x) { return launch_pointwise<ToNarrow<decltype(x)>>; });
}

PointwiseLaunch find_quantize(DType from, DType to) {
  return launch_for_floats(from, [to](auto x) { return quantize_from<decltype(x)>(to); });
}

PointwiseLaunch find_dequantize(DType from, DType to) {
  return launch_for_floats(to, [from](auto y) { return dequantize_to<decltype(y)>(from); });
}

}  // namespace leat::cuda
