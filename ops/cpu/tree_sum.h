// Reductions in an order of operations that follows from sizes alone. Tiles, threads and the vector
// width cannot change a bit.
//
// A line of n elements is folded into kFoldLanes lanes (element i into lane i % kFoldLanes, in
// order), then the lanes pairwise. Many partial results are folded in the tree of n leaves that
// splits at the largest power of two below n. TreeStack builds this tree from left to right with
// log2(n) buffers; a subtree of 2^k aligned leaves may be built separately.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "devices/base/dtype.h"
#include "ops/cpu/vectorize.h"

namespace leat {

inline constexpr int kFoldLanes = 32;
inline constexpr int64_t kLineBlock = 2048;  // a longer line is cut into blocks, folded in a tree
inline constexpr int64_t kRowBlock = 32;     // rows that are folded one after the other

// The type for computations with elements: float for f32, f16 and bf16; 64-bit types for integers
// (the results wrap around as in their own width).
template <typename T>
struct ComputeType {
  using type = std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>;
};
template <>
struct ComputeType<float> {
  using type = float;
};
template <>
struct ComputeType<Half> {
  using type = float;
};
template <>
struct ComputeType<BFloat16> {
  using type = float;
};
template <>
struct ComputeType<double> {
  using type = double;
};
template <typename T>
using Compute = typename ComputeType<T>::type;

template <typename T>
LEAT_INLINE Compute<T> load_as_compute(T value) {
  if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>)
    return to_float(value);
  else
    return static_cast<Compute<T>>(value);
}
template <typename T>
LEAT_INLINE T store_from_compute(Compute<T> value) {
  if constexpr (std::is_same_v<T, Half>)
    return to_half(value);
  else if constexpr (std::is_same_v<T, BFloat16>)
    return to_bfloat16(value);
  else
    return static_cast<T>(value);
}

// The ways to fold. into(a, b) works on numbers and on vectors of them. Signed sums and products
// wrap around: they go through unsigned types, because the build has no -fwrapv.
struct SumFold {
  template <typename T>
  static constexpr T identity() {
    return T(0);
  }
  template <typename T>
  static LEAT_INLINE void into(T& a, const T& b) {
    if constexpr (std::is_same_v<T, int64_t>)
      a = static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
    else
      a = a + b;
  }
};
struct ProdFold {
  template <typename T>
  static constexpr T identity() {
    return T(1);
  }
  template <typename T>
  static LEAT_INLINE void into(T& a, const T& b) {
    if constexpr (std::is_same_v<T, int64_t>)
      a = static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
    else
      a = a * b;
  }
};
// If an operand is NaN, the result is NaN.
struct MaxFold {
  template <typename T>
  static constexpr T identity() {
    if constexpr (std::is_floating_point_v<T>)
      return -std::numeric_limits<T>::infinity();
    else
      return std::numeric_limits<T>::lowest();
  }
  template <typename T>
  static LEAT_INLINE void into(T& a, const T& b) {
    a = ((a > b) | (a != a)) ? a : b;
  }
};
struct MinFold {
  template <typename T>
  static constexpr T identity() {
    if constexpr (std::is_floating_point_v<T>)
      return std::numeric_limits<T>::infinity();
    else
      return std::numeric_limits<T>::max();
  }
  template <typename T>
  static LEAT_INLINE void into(T& a, const T& b) {
    a = ((a < b) | (a != a)) ? a : b;
  }
};

// A function of an element that is applied before the fold.
struct AsIs {
  template <typename T>
  static LEAT_INLINE T of(const T& x) {
    return x;
  }
};
struct Squared {
  template <typename T>
  static LEAT_INLINE T of(const T& x) {
    if constexpr (std::is_same_v<T, int64_t>)
      return static_cast<int64_t>(static_cast<uint64_t>(x) * static_cast<uint64_t>(x));
    else
      return x * x;
  }
};
struct Absolute {
  template <typename T>
  static LEAT_INLINE T of(const T& x) {
    if constexpr (std::is_unsigned_v<T>)
      return x;
    else if constexpr (std::is_same_v<T, int64_t>)
      return x < 0 ? static_cast<int64_t>(-static_cast<uint64_t>(x)) : x;
    else
      return x < 0 ? -x : x;
  }
};

// Folds a line of up to kLineBlock elements, or more if long sequential lanes are acceptable. The
// loops are plain: vector types would be cut to the baseline's width before the code is compiled
// into a clone.
template <typename Fold, typename Map, typename T>
LEAT_INLINE T fold_line(const T* x, int64_t n) {
  T lanes[kFoldLanes];
  for (int j = 0; j < kFoldLanes; ++j) lanes[j] = Fold::template identity<T>();
  int64_t i = 0;
  for (; i + kFoldLanes <= n; i += kFoldLanes) {
    for (int j = 0; j < kFoldLanes; ++j) Fold::into(lanes[j], Map::of(x[i + j]));
  }
  for (int j = 0; i + j < n; ++j) Fold::into(lanes[j], Map::of(x[i + j]));
  // Lanes that a short line left empty hold the identity, so the tree above them changes nothing.
  for (int width = n < kFoldLanes ? static_cast<int>(std::bit_ceil(static_cast<uint64_t>(n)) / 2)
                                  : kFoldLanes / 2;
       width > 0; width /= 2) {
    for (int j = 0; j < width; ++j) Fold::into(lanes[j], lanes[j + width]);
  }
  return lanes[0];
}

// Folds x[j] into acc[j].
template <typename Fold, typename Map, typename T>
LEAT_INLINE void fold_row(T* acc, const T* x, int64_t width) {
  for (int64_t j = 0; j < width; ++j) Fold::into(acc[j], Map::of(x[j]));
}

// The tree over partial results of `width` elements each, pushed from left to right. `memory` holds
// (levels + 1) x width elements; the next partial result goes to top().
template <typename Fold, typename T>
class TreeStack {
 public:
  // The number of buffers that a tree of `leaves` leaves needs.
  static int64_t buffers(int64_t leaves) {
    return std::bit_width(static_cast<uint64_t>(leaves)) + 1;
  }

  TreeStack(T* memory, int64_t width) : memory_(memory), width_(width) {}
  // The buffer of the partial result that push() takes.
  T* top() { return memory_ + depth_ * width_; }
  void push() {
    ++depth_;
    for (uint64_t n = count_++; n & 1; n >>= 1) merge();
  }
  // Returns the root. REQUIRES: at least one push.
  T* finish() {
    while (depth_ > 1) merge();
    return memory_;
  }

 private:
  void merge() {
    T* left = memory_ + (depth_ - 2) * width_;
    const T* right = left + width_;
    for (int64_t j = 0; j < width_; ++j) Fold::into(left[j], right[j]);
    --depth_;
  }
  T* memory_;
  int64_t width_;
  int64_t depth_ = 0;
  uint64_t count_ = 0;
};

// The sum of n (mapped) elements in a tree whose leaves are lines of kLineBlock.
template <typename Map = AsIs, typename T>
LEAT_INLINE T tree_sum(const T* x, int64_t n) {
  T memory[64];
  TreeStack<SumFold, T> stack(memory, 1);
  int64_t i = 0;
  do {
    *stack.top() = fold_line<SumFold, Map>(x + i, std::min(kLineBlock, n - i));
    stack.push();
    i += kLineBlock;
  } while (i < n);
  return *stack.finish();
}

}  // namespace leat
