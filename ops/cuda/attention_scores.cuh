// The keys that a query sees, and its scores, for all kernels of Attention.
#pragma once

#include <limits>

#include "ops/cuda/attention.h"
#include "ops/elements/tree_sum.h"
#include "ops/elements/vector_math.h"

namespace leat::cuda {

struct Keys {
  int64_t first, last;
};

// The keys that a query may see, before the mask. Both ends rise with the row.
__device__ inline Keys visible(const AttentionCall& call, int64_t n, int64_t row) {
  const int64_t given = call.lengths ? call.lengths[n] : -1;
  const int64_t length = call.lengths && given < 0 ? 0 : given;
  const int64_t place = row + (length >= 0 ? length - call.queries : 0);
  int64_t first = 0, last = call.keys;
  if (length >= 0 && length < last) last = length;
  if (call.mask && call.mask_width < last) last = call.mask_width;
  if (call.causal && place + 1 < last) last = place + 1;
  if (call.right >= 0 && place < call.keys && call.right < call.keys - place &&
      place + call.right + 1 < last)
    last = place + call.right + 1;
  if (call.left >= 0) {
    const int64_t begin = place - (call.left < place + 1 ? call.left : place + 1);
    if (begin > first) first = begin;
  }
  return {first < call.keys ? first : call.keys, last > 0 ? last : 0};
}

// A score as the softmax gets it, of a scaled product, and the slope of its cap. -infinity hides
// the key.
template <typename T>
__device__ inline Compute<T> score_of(const AttentionCall& call, int64_t n, int64_t h, int64_t row,
                                      int64_t key, Compute<T> x, Compute<T>* slope) {
  using A = Compute<T>;
  *slope = A(1);
  if (call.softcap > 0) {
    const A cap = static_cast<A>(call.softcap);
    x = cap * vmath::tanh(x / cap);
    *slope = A(1) - (x / cap) * (x / cap);
  }
  if (!call.mask) return x;
  constexpr A kHidden = -std::numeric_limits<A>::infinity();
  const int64_t at =
      (((call.mask_batches > 1 ? n : 0) * call.mask_heads + (call.mask_heads > 1 ? h : 0)) *
           call.mask_rows +
       (call.mask_rows > 1 ? row : 0)) *
          call.mask_width +
      key;
  if (call.boolean_mask) return static_cast<const bool*>(call.mask)[at] ? x : kHidden;
  const A mask = load_as_compute(static_cast<const T*>(call.mask)[at]);
  return mask == kHidden ? kHidden : x + mask;
}

}  // namespace leat::cuda
