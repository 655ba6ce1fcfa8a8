// Reductions in an order of operations that follows from sizes alone. Tiles, threads and the vector
// width cannot change a bit.
//
// A line of n elements is folded into kFoldLanes lanes (element i into lane i % kFoldLanes, in
// order), then the lanes pairwise. Many partial results are folded in the tree of n leaves that
// splits at the largest power of two below n. TreeStack builds this tree from left to right with
// about log2(n) buffers; a subtree of 2^k aligned leaves may be built separately.
//
//   float memory[64];  // one buffer of one float for each level
//   TreeStack<SumFold, float> stack(memory, 1);
//   for (int64_t i = 0; i < n; i += kLineBlock) {
//     *stack.top() = fold_line<SumFold, Squared>(x + i, std::min(kLineBlock, n - i));
//     stack.push();
//   }
//   const float sum_of_squares = *stack.finish();  // n > 0: finish() needs a push
//
// A fold in a tree also loses fewer digits than one in sequence: the error of a sum grows with the
// depth of the tree, not with n.
//
// Threads: any. The functions have no state, and a TreeStack belongs to the thread that uses it.
// Nothing here allocates.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "devices/base/float16.h"
#include "devices/base/inline.h"

namespace leat {

// These numbers are part of the results: another value gives other bits. 32 lanes of float are two
// vectors of AVX-512, and independent chains of additions hide the latency of each one.
inline constexpr int kFoldLanes = 32;
inline constexpr int64_t kLineBlock = 2048;  // a longer line is cut into blocks, folded in a tree
// A reduction over an outer axis folds lines element by element. A leaf of its tree is this many
// rows: each column adds them one after the other.
inline constexpr int64_t kRowBlock = 32;  // rows that are folded one after the other

// The type for computations with elements: float for f32, f16 and bf16, double for f64, and for
// integers (and bool) the 64-bit type of their signedness. Sums and products of integers that are
// stored back wrap around as in their own width. An operation between the fold and the store (the
// division of a mean, the root of an L2 norm) sees the 64-bit value.
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

// Converts an element to the type for computations, exactly.
template <typename T>
LEAT_INLINE Compute<T> load_as_compute(T value) {
  if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>)
    return to_float(value);
  else
    return static_cast<Compute<T>>(value);
}
// Converts a result back. f16 and bf16 are rounded to nearest, ties to even; integers keep their
// lowest bits. The result of a tree is rounded to 16 bits once, at its end.
template <typename T>
LEAT_INLINE T store_from_compute(Compute<T> value) {
  if constexpr (std::is_same_v<T, Half>)
    return to_half(value);
  else if constexpr (std::is_same_v<T, BFloat16>)
    return to_bfloat16(value);
  else
    return static_cast<T>(value);
}

// The ways to fold. into(a, b) replaces a by the fold of a and b, where a is the earlier one; it
// works on all compute types. identity() is the value that changes no result: it begins every lane,
// and it is the fold of no elements. Signed sums and products wrap around: they go through unsigned
// types, because the build has no -fwrapv.
//
// The identity of a sum is +0, so the sum of elements that are all -0 is +0.
struct SumFold {
  template <typename T>
  LEAT_INLINE static constexpr T identity() {
    return T(0);
  }
  template <typename T>
  LEAT_INLINE static void into(T& a, const T& b) {
    if constexpr (std::is_same_v<T, int64_t>)
      a = static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
    else
      a = a + b;
  }
};
// The product. As for sums, overflow of a float gives an infinity.
struct ProdFold {
  template <typename T>
  LEAT_INLINE static constexpr T identity() {
    return T(1);
  }
  template <typename T>
  LEAT_INLINE static void into(T& a, const T& b) {
    if constexpr (std::is_same_v<T, int64_t>)
      a = static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
    else
      a = a * b;
  }
};
// The largest element. If an operand is NaN, the result is NaN, and of several the first in the
// order of the fold. The maximum of no elements is -infinity, or the lowest integer of the compute
// type. Of +0 and -0, which compare as equal, the later one in that order remains.
struct MaxFold {
  template <typename T>
  LEAT_INLINE static constexpr T identity() {
    if constexpr (std::is_floating_point_v<T>)
      return -std::numeric_limits<T>::infinity();
    else
      return std::numeric_limits<T>::lowest();
  }
  template <typename T>
  LEAT_INLINE static void into(T& a, const T& b) {
    a = ((a > b) | (a != a)) ? a : b;
  }
};
// The smallest element, with the same rules. The minimum of no elements is +infinity, or the
// largest integer of the compute type.
struct MinFold {
  template <typename T>
  LEAT_INLINE static constexpr T identity() {
    if constexpr (std::is_floating_point_v<T>)
      return std::numeric_limits<T>::infinity();
    else
      return std::numeric_limits<T>::max();
  }
  template <typename T>
  LEAT_INLINE static void into(T& a, const T& b) {
    a = ((a < b) | (a != a)) ? a : b;
  }
};

// The maps: functions of an element that are applied before the fold. AsIs folds the elements
// themselves.
struct AsIs {
  template <typename T>
  LEAT_INLINE static T of(const T& x) {
    return x;
  }
};
// Folds squares, for ReduceSumSquare, ReduceL2 and variances. Signed squares wrap around.
struct Squared {
  template <typename T>
  LEAT_INLINE static T of(const T& x) {
    if constexpr (std::is_same_v<T, int64_t>)
      return static_cast<int64_t>(static_cast<uint64_t>(x) * static_cast<uint64_t>(x));
    else
      return x * x;
  }
};
// Folds magnitudes, for ReduceL1. The magnitude of the lowest int64 wraps around to itself. -0
// stays -0, which a sum then loses.
struct Absolute {
  template <typename T>
  LEAT_INLINE static T of(const T& x) {
    if constexpr (std::is_unsigned_v<T>)
      return x;
    else if constexpr (std::is_same_v<T, int64_t>)
      return x < 0 ? static_cast<int64_t>(-static_cast<uint64_t>(x)) : x;
    else
      return x < 0 ? -x : x;
  }
};

// Folds a line of up to kLineBlock contiguous elements, or more if long sequential lanes are
// acceptable (for a maximum they always are: it is exact in any order). n == 0 gives the identity.
// The map is applied to each element once; the identity is folded in without it.
//
// The loops are plain: vector types would be cut to the baseline's width before the code is
// compiled into a clone. The caller is therefore a function with LEAT_VECTOR_CLONES where speed
// matters. T is a compute type: f16 and bf16 are loaded into a buffer of floats before the call.
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

// Folds Map::of(x[j]) into acc[j] for each j < width: one row of a fold over an outer axis. The
// caller fills acc with the identity before the first row. No sum runs across columns, so each
// column has the order of the rows, whatever `width` the caller cuts them into.
template <typename Fold, typename Map, typename T>
LEAT_INLINE void fold_row(T* acc, const T* x, int64_t width) {
  for (int64_t j = 0; j < width; ++j) Fold::into(acc[j], Map::of(x[j]));
}

// The tree over partial results of `width` elements each, pushed from left to right: an array of
// buffers used as a stack, of which each entry is a complete subtree. A push merges subtrees of
// equal size, as carries do in a binary counter, and finish() merges the rest from the right.
//
// `memory` holds buffers(leaves) * width elements of T. It is the caller's, mostly from the scratch
// memory of a kernel, and needs no initial value. The object keeps the pointer: it must not outlive
// the memory, and is used for one tree.
template <typename Fold, typename T>
class TreeStack {
 public:
  // The number of buffers that a tree of `leaves` leaves needs: one for each level, and one for the
  // next leaf. 64 buffers are enough for any tree.
  LEAT_INLINE static int64_t buffers(int64_t leaves) {
    return std::bit_width(static_cast<uint64_t>(leaves)) + 1;
  }

  LEAT_INLINE TreeStack(T* memory, int64_t width) : memory_(memory), width_(width) {}
  // The buffer of the partial result that push() takes, of `width` elements. The caller writes all
  // of them. The pointer is valid until push().
  LEAT_INLINE T* top() { return memory_ + depth_ * width_; }
  // Takes the partial result in top() as the next leaf. The work is one fold of `width` elements
  // per leaf on average, and log2(leaves) at most.
  LEAT_INLINE void push() {
    ++depth_;
    for (uint64_t n = count_++; n & 1; n >>= 1) merge();
  }
  // Returns the root: `width` elements at the start of the memory. The stack takes no push after
  // that. REQUIRES: at least one push.
  LEAT_INLINE T* finish() {
    while (depth_ > 1) merge();
    return memory_;
  }

 private:
  // Folds the last two subtrees; the earlier one is the left operand.
  LEAT_INLINE void merge() {
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

// The sum of n contiguous (mapped) elements in a tree whose leaves are lines of kLineBlock; 0 for n
// == 0. The bits follow from n and the elements. A kernel that sums the same elements in parallel
// gets these bits if it folds aligned groups of 2^k lines and then pushes the results in order.
// conv_kernel.h has a function of this name with other arguments, for parts that lie in one array.
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
