// The numbers of Range, for its inference and its kernel.
#pragma once

#include <cmath>
#include <cstdint>
#include <optional>
#include <type_traits>

#include "devices/core/tensor.h"

namespace leat {

inline constexpr int64_t kMostOfRange = int64_t{1} << 40;

// The number of elements: max(0, ceil((limit - start) / delta)). Nothing if delta is 0, if an
// operand is no number, or for more than kMostOfRange. REQUIRES: all have one element and one
// dtype.
inline std::optional<int64_t> range_length(const Tensor& start, const Tensor& limit,
                                           const Tensor& delta) {
  double count = 0;
  if (is_int(start.dtype())) {
    // In integers: doubles do not have all of them. A step goes up or down.
    const int64_t step = delta.int_at(0);
    const __int128 distance = static_cast<__int128>(limit.int_at(0)) - start.int_at(0);
    if (step == 0) return std::nullopt;
    const __int128 size = step < 0 ? -static_cast<__int128>(step) : step;
    const __int128 way = step < 0 ? -distance : distance;
    count = way <= 0 ? 0 : static_cast<double>((way + size - 1) / size);
  } else {
    count = std::ceil((limit.at(0) - start.at(0)) / delta.at(0));
    if (std::isnan(count) || delta.at(0) == 0) return std::nullopt;
  }
  if (count > static_cast<double>(kMostOfRange)) return std::nullopt;
  return count <= 0 ? 0 : static_cast<int64_t>(count);
}

// Element i becomes start + i * delta, computed in doubles and rounded once; integers are exact,
// and wrap as unsigned numbers do. REQUIRES: all have one dtype.
inline void fill_range(Tensor& out, const Tensor& start, const Tensor& delta) {
  if (!is_int(out.dtype())) {
    for (int64_t i = 0; i < out.elements(); ++i)
      out.set(i, start.at(0) + static_cast<double>(i) * delta.at(0));
    return;
  }
  const auto first = static_cast<uint64_t>(start.int_at(0));
  const auto step = static_cast<uint64_t>(delta.int_at(0));
  dispatch_dtype(out.dtype(), [&](auto tag) {
    using T = decltype(tag);
    if constexpr (std::is_integral_v<T>) {
      for (int64_t i = 0; i < out.elements(); ++i)
        out.data<T>()[i] = static_cast<T>(first + static_cast<uint64_t>(i) * step);
    }
  });
}

}  // namespace leat
