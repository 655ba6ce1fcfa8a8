// Numbers as elements of a column's type. Private to ops/data/sources.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "devices/base/dtype.h"

namespace leat {

// Calls f with a value of the C++ type of `dtype`, and returns its result.
// REQUIRES: one of kColumnTypes.
template <typename F>
auto with_column_type(DType dtype, F f) {
  switch (dtype) {
    case DType::f64:
      return f(double{});
    case DType::i8:
      return f(int8_t{});
    case DType::i16:
      return f(int16_t{});
    case DType::i32:
      return f(int32_t{});
    case DType::i64:
      return f(int64_t{});
    case DType::u8:
      return f(uint8_t{});
    case DType::u16:
      return f(uint16_t{});
    case DType::u32:
      return f(uint32_t{});
    case DType::u64:
      return f(uint64_t{});
    case DType::boolean:
      return f(bool{});
    default:
      return f(float{});
  }
}

// True if the element type holds this number exactly or, for floats, nearly: a float rounds it, but
// an integer neither cuts a fraction nor wraps.
template <typename T>
bool holds(double value) {
  if constexpr (std::is_same_v<T, bool>) return value == 0 || value == 1;
  if constexpr (std::is_floating_point_v<T>)
    return !std::isfinite(value) || std::isfinite(static_cast<T>(value));
  // The upper limit plus 1 is a power of two, which a double has exactly.
  constexpr double kLow = static_cast<double>(std::numeric_limits<T>::lowest());
  constexpr double kPast = 2.0 * static_cast<double>((std::numeric_limits<T>::max() / 2) + 1);
  return value >= kLow && value < kPast && value == std::floor(value);
}

template <typename T>
bool holds_integer(int64_t value) {
  if constexpr (std::is_same_v<T, bool>) return value == 0 || value == 1;
  if constexpr (std::is_floating_point_v<T>) return true;
  if constexpr (std::is_unsigned_v<T>)
    return value >= 0 && static_cast<uint64_t>(value) <= uint64_t{std::numeric_limits<T>::max()};
  if constexpr (std::is_signed_v<T> && !std::is_floating_point_v<T>)
    return value >= std::numeric_limits<T>::min() && value <= std::numeric_limits<T>::max();
  return false;
}

// Writes the number at `at`, which needs no alignment. False if the type does not hold it.
inline bool store_number(DType dtype, double value, std::byte* at) {
  return with_column_type(dtype, [&](auto type) {
    using T = decltype(type);
    if (!holds<T>(value)) return false;
    const T element = static_cast<T>(value);
    std::memcpy(at, &element, sizeof element);
    return true;
  });
}
inline bool store_integer(DType dtype, int64_t value, std::byte* at) {
  return with_column_type(dtype, [&](auto type) {
    using T = decltype(type);
    if (!holds_integer<T>(value)) return false;
    const T element = static_cast<T>(value);
    std::memcpy(at, &element, sizeof element);
    return true;
  });
}

}  // namespace leat
