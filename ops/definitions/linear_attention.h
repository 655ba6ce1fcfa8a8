// The sizes and the rule of a LinearAttention, for its definition and its kernels.
#pragma once

#include <cstdint>

#include "ops/graph/kernel.h"
#include "ops/graph/op.h"

namespace leat {

// The operands of LinearAttention. Those of its gradient are the same, and then the gradients of
// the output and of the state.
enum LinearAttentionInput : int {
  kQueryInput,
  kKeyInput,
  kValueInput,
  kPastInput,
  kDecayInput,
  kBetaInput,
  kDyInput,
  kDStateInput
};

struct LinearAttentionSpec {
  bool gated = false;  // the state decays
  bool delta = false;  // a value replaces what the state has for its key
  int64_t query_heads = 0, heads = 0;
  int64_t rows = 0, steps = 0;
  int64_t key_size = 0, value_size = 0;  // of a head
  int64_t decays = 0;                    // of a head: 1, or key_size
  int64_t betas = 0;                     // of a step: 1, or `heads`
  double scale = 1;

  int64_t group() const { return query_heads / heads; }
  int64_t state_elements() const { return key_size * value_size; }
};

// The spec of a node; its operands are those of LinearAttention, in their order. invalid_argument
// if they do not fit.
Result<LinearAttentionSpec> linear_attention_spec(const KernelSetup& setup);

}  // namespace leat
