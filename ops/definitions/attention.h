// The sizes and forms of ONNX's Attention and of its gradient, leat.AttentionGrad.
//
// Q, K and V are [N,H,T,D] or, with the numbers of heads as attributes, [N,T,H*D]. Several heads of
// Q may share one head of K and V: head h of Q meets head h / (heads of Q / heads of K).
//
// Source: ONNX's operator reference, Attention-25.
#pragma once

#include <cstdint>

#include "devices/base/status.h"
#include "ops/graph/kernel.h"

namespace leat {

// The operands of the forward op; kPast* are the keys and values of earlier steps, which come
// before K and V.
enum AttentionInput : int { kQuery, kKey, kValue, kMask, kPastKey, kPastValue, kLengths };
enum AttentionOutput : int { kAttended, kPresentKey, kPresentValue, kScores, kLogSumExp };
// The operands of the gradient. Its key and value are with those of earlier steps; of `past` only
// the number of keys is read.
enum AttentionGradInput : int {
  kGradQuery,
  kGradKey,
  kGradValue,
  kGradAttended,
  kGradLogSumExp,
  kGradOfAttended,
  kGradMask,
  kGradPast,
  kGradLengths,
};
enum AttentionGradOutput : int { kQueryGrad, kKeyGrad, kValueGrad, kMaskGrad };

// The place of each head's matrix [rows, columns] in an operand, as distances in elements. Columns
// are adjacent.
struct HeadStrides {
  int64_t batch = 0, head = 0, row = 0;
  int64_t at(int64_t n, int64_t h, int64_t r) const { return n * batch + h * head + r * row; }
};

// A mask [n, h, rows, width] that is broadcast where a size is 1; keys past its width are masked.
struct MaskForm {
  bool present = false, boolean = false;
  int64_t batches = 1, heads = 1, rows = 1, width = 0;
  int64_t at(int64_t n, int64_t h, int64_t r) const {
    return (((batches > 1 ? n : 0) * heads + (heads > 1 ? h : 0)) * rows + (rows > 1 ? r : 0)) *
           width;
  }
};

// The stage at which the scores go to the optional output that holds them.
enum class ScoresMode : uint8_t { products, capped, masked, probabilities };

struct AttentionForm {
  int64_t batch = 0, q_heads = 0, kv_heads = 0;
  int64_t queries = 0, keys = 0, past = 0;  // `keys` counts those of earlier steps, too
  int64_t head = 0, v_head = 0;             // columns of a head of Q and K, and of V
  HeadStrides q, k, v, y;                   // as the operands are
  // The form [N,H,T,D] of all keys and values.
  HeadStrides whole_k, whole_v;
  MaskForm mask;
  double scale = 1, softcap = 0;  // a cap of 0 is none
  bool causal = false;
  int64_t left = -1, right = -1;  // the window; -1: no limit
  ScoresMode mode = ScoresMode::products;

  int64_t group() const { return q_heads / kv_heads; }
  // The keys that query `row` may see are [first, last), before the mask. `length` is the number of
  // valid keys, or -1 if the node has no such operand.
  struct Keys {
    int64_t first, last;
  };
  Keys visible(int64_t row, int64_t length) const;
};

// REQUIRES: types that inference has accepted. The message of an error has no subject.
Result<AttentionForm> attention_form(const OpTypes& types);
Result<AttentionForm> attention_grad_form(const OpTypes& types);

}  // namespace leat
