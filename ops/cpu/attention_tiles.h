// The parts that the kernels of Attention and of its gradient share: one block of scores, for some
// queries and some keys of one head, and loops over its rows. Private to this folder.
//
// Source: T. Dao, FlashAttention-2 (2023). A block is at most kQueryBlock by kKeyBlock, so no
// matrix of all queries by all keys is in memory. The blocks follow from the shapes alone.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>

#include "devices/base/align.h"
#include "devices/base/text.h"
#include "ops/cpu/gemm.h"
#include "ops/definitions/attention.h"
#include "ops/graph/kernel.h"

namespace leat {

// These numbers are part of the results. A block of scores of floats has 64 KiB.
inline constexpr int64_t kQueryBlock = 64;
inline constexpr int64_t kKeyBlock = 256;

// --- Loops over n scores of one query ----------------------------------------------------------

// x = cap tanh(x / cap).
void cap_scores(float cap, float* x, int64_t n);
void cap_scores(double cap, double* x, int64_t n);
// Adds a mask, in which -infinity hides a key whatever its score is.
void add_mask(const float* mask, float* x, int64_t n);
void add_mask(const double* mask, double* x, int64_t n);
// Hides the keys at which the mask is false.
void hide_false(const bool* mask, float* x, int64_t n);
void hide_false(const bool* mask, double* x, int64_t n);
// Replaces the scores by e^(x - m), where m is the largest score so far; `sum` is that of the
// exponentials so far. Returns the factor for what was computed with the old m. If no key was
// visible so far, m is -infinity and the sum is 0.
float add_exponentials(float* x, int64_t n, float* largest, float* sum);
double add_exponentials(double* x, int64_t n, double* largest, double* sum);
// x = e^(x - log_sum_exp).
void probabilities(float log_sum_exp, float* x, int64_t n);
void probabilities(double log_sum_exp, double* x, int64_t n);
// d = p (d - mean): the gradient of the scores, from that of the probabilities.
void score_gradients(const float* p, float mean, float* d, int64_t n);
void score_gradients(const double* p, double mean, double* d, int64_t n);
// y = y factor + x.
void scale_and_add(const float* x, float factor, float* y, int64_t n);
void scale_and_add(const double* x, double factor, double* y, int64_t n);
// The sum of x y, in the order of ops/elements/tree_sum.h.
float dot(const float* x, const float* y, int64_t n);
double dot(const double* x, const double* y, int64_t n);

// --- Blocks ------------------------------------------------------------------------------------

// One head of one row of the batch. `kv_head` is the head of K and V that it meets.
struct AttentionHead {
  int64_t n = 0, head = 0, kv_head = 0;
  int64_t length = -1;  // of the valid keys; -1: all
};

// Queries [row, row + rows) and keys [key, key + keys).
struct AttentionBlock {
  int64_t row = 0, rows = 0, key = 0, keys = 0;
};

// The keys that some of the queries may see, from a multiple of kKeyBlock on.
inline AttentionForm::Keys visible_keys(const AttentionForm& form, int64_t row, int64_t rows,
                                        int64_t length) {
  if (rows == 0) return {0, 0};
  // Both ends grow with the query.
  const int64_t first = form.visible(row, length).first;
  const int64_t last = form.visible(row + rows - 1, length).last;
  return {first / kKeyBlock * kKeyBlock, last};
}

// The operands of one run, as elements.
template <typename T>
struct AttentionOperands {
  const T *q = nullptr, *k = nullptr, *v = nullptr;
  HeadStrides of_k, of_v;
  const void* mask = nullptr;
  const int64_t* lengths = nullptr;

  AttentionHead head(const AttentionForm& form, int64_t n, int64_t h) const {
    return {n, h, h / form.group(), lengths ? std::max<int64_t>(0, lengths[n]) : -1};
  }
};

// x = scale Q K^T for the block, [rows, keys], with rows b.keys apart. False if the matrix library
// refuses.
template <typename T>
bool score_products(const AttentionForm& form, const AttentionOperands<T>& in,
                    const AttentionHead& h, const AttentionBlock& b, T* x, std::byte* scratch) {
  const onednn::Gemm g{.trans_b = true,
                       .m = b.rows,
                       .n = b.keys,
                       .k = form.head,
                       .lda = form.q.row,
                       .ldb = in.of_k.row,
                       .ldc = b.keys,
                       .alpha = static_cast<float>(form.scale)};
  if (!gemm<T>(g, in.q + form.q.at(h.n, h.head, b.row), in.k + in.of_k.at(h.n, h.kv_head, b.key), x,
               scratch))
    return false;
  if constexpr (!std::is_same_v<T, float>) {
    for (int64_t i = 0; i < b.rows * b.keys; ++i) x[i] *= static_cast<T>(form.scale);
  }
  return true;
}

// Adds the mask, and hides the keys that a query may not see.
template <typename T>
void mask_scores(const AttentionForm& form, const AttentionOperands<T>& in, const AttentionHead& h,
                 const AttentionBlock& b, T* x) {
  constexpr T kHidden = -std::numeric_limits<T>::infinity();
  for (int64_t i = 0; i < b.rows; ++i) {
    T* const line = x + i * b.keys;
    const AttentionForm::Keys keys = form.visible(b.row + i, h.length);
    const int64_t last = std::clamp<int64_t>(keys.last - b.key, 0, b.keys);
    const int64_t first = std::clamp<int64_t>(keys.first - b.key, 0, last);
    std::fill(line, line + first, kHidden);
    std::fill(line + last, line + b.keys, kHidden);
    if (!form.mask.present || first == last) continue;
    const int64_t at = form.mask.at(h.n, h.head, b.row + i) + b.key + first;
    if (form.mask.boolean)
      hide_false(static_cast<const bool*>(in.mask) + at, line + first, last - first);
    else
      add_mask(static_cast<const T*>(in.mask) + at, line + first, last - first);
  }
}

inline Progress attention_library_error(KernelContext& context, const std::string& subject) {
  context.step->fail(context.instruction,
                     internal_error(cat(subject, ": the matrix library refused a product")));
  return Progress::failed;
}

// Memory that is cut into arrays, each at a multiple of 64 bytes.
class AttentionScratch {
 public:
  explicit AttentionScratch(std::byte* memory) : next_(memory) {}
  static size_t bytes(int64_t elements, size_t size) {
    return align_up(static_cast<size_t>(elements) * size, 64);
  }
  template <typename T>
  T* take(int64_t elements) {
    T* const taken = reinterpret_cast<T*>(next_);
    next_ += bytes(elements, sizeof(T));
    return taken;
  }
  std::byte* rest() const { return next_; }

 private:
  std::byte* next_;
};

}  // namespace leat
