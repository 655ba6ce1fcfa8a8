// Attention and its gradient on CUDA by plain kernels of our own, the twins of cuDNN's: no matrix
// of all queries by all keys is in memory.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "devices/base/dtype.h"
#include "devices/base/inline.h"

namespace leat::cuda {

// The most columns of a head: each lane of a warp keeps this many / 32 sums.
inline constexpr int64_t kMostHeadColumns = 256;

// The place of each head's matrix in an operand, in elements; columns are adjacent.
struct HeadSteps {
  int64_t batch = 0, head = 0, row = 0;
  LEAT_INLINE int64_t at(int64_t n, int64_t h, int64_t r) const {
    return n * batch + h * head + r * row;
  }
};

// As AttentionForm in ops/definitions/attention.h, without earlier keys.
struct AttentionCall {
  int64_t batch = 0, q_heads = 0, kv_heads = 0, queries = 0, keys = 0, head = 0, v_head = 0;
  HeadSteps of_q, of_k, of_v, of_y;
  const void* mask = nullptr;
  bool boolean_mask = false;
  int64_t mask_batches = 1, mask_heads = 1, mask_rows = 1, mask_width = 0;
  const int64_t* lengths = nullptr;
  double scale = 1, softcap = 0;
  bool causal = false;
  int64_t left = -1, right = -1;
  const void *q = nullptr, *k = nullptr, *v = nullptr;
  void* y = nullptr;  // read by the gradient
  // In the type of the arithmetic: written if it is there, and read by the gradient.
  void* log_sums = nullptr;
  const void* dy = nullptr;  // of the gradient
  void *dq = nullptr, *dk = nullptr, *dv = nullptr;
};
cudaError_t launch_attention(const AttentionCall& call, DType dtype, cudaStream_t stream);
cudaError_t launch_attention_grad(const AttentionCall& call, DType dtype, cudaStream_t stream);

// The steps between the products of attention_products.h, for some items of the batch. All matrices
// are [heads, queries, keys], in the type of the arithmetic, but for those in the operands' dtype.
struct WeightsCall {
  int64_t first_batch = 0, batches = 0;
  void* scores = nullptr;        // scaled
  void* weights = nullptr;       // in the operands' dtype: written
  void* weight_grads = nullptr;  // of the gradient
  void* score_grads = nullptr;   // in the operands' dtype: written by the gradient
};
// The softmax of the scores, and its sums where the call wants them.
cudaError_t launch_attention_weights(const AttentionCall& call, const WeightsCall& rows,
                                     DType dtype, cudaStream_t stream);
// The same weights again, and the gradients of the scores, before their scale.
cudaError_t launch_attention_weights_grad(const AttentionCall& call, const WeightsCall& rows,
                                          DType dtype, cudaStream_t stream);

}  // namespace leat::cuda
