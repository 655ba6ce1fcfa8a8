// Softmax, LogSoftmax, the classification losses and their gradients on CUDA. A warp computes a
// line; sums have the tree of ops/elements/tree_sum.h.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "devices/base/dtype.h"

namespace leat::cuda {

struct Complaint;

enum class SoftmaxKind : uint8_t { softmax, log_softmax, softmax_grad, log_softmax_grad };

// Lines along the middle axis of [outer, size, inner]. Of the gradients, a is dy and b is y.
struct SoftmaxCall {
  const void *a = nullptr, *b = nullptr;
  void* y = nullptr;
  int64_t lines = 0, size = 0, inner = 1;
  SoftmaxKind kind = SoftmaxKind::softmax;
};
cudaError_t launch_softmax(const SoftmaxCall& call, DType dtype, cudaStream_t stream);

enum class LossMean : uint8_t { none, sum, mean };

// Scores [rows, classes, inner] with a label for each position, a row and an inner index.
struct LossCall {
  int64_t positions = 0, classes = 0, inner = 1;
  const void* scores = nullptr;  // or log probabilities, if they are given
  const void* labels = nullptr;
  bool wide_labels = true;        // int64, or int32
  const void* weights = nullptr;  // of the classes; null: 1
  bool has_ignored = false;
  int64_t ignored = 0;
  bool given_log_prob = false;
  LossMean mean = LossMean::mean;
  void* loss = nullptr;
  void* log_prob = nullptr;   // an output that may be absent
  void* workspace = nullptr;  // loss_workspace() bytes
  size_t shared_bytes = 0;    // that a block may have: CudaDevice::shared_bytes()
  Complaint* complaint = nullptr;
  // Of each position the largest score, and behind those the logarithms of the sums: an output of
  // the loss, and an operand of the gradient. Null: log probabilities are kept.
  void* stats = nullptr;
  // Of the gradient: dloss, and dx.
  const void* dloss = nullptr;
  void* dx = nullptr;
};
// The losses of all positions, and their weights.
inline size_t loss_workspace(int64_t positions) {
  return static_cast<size_t>(2 * positions + 1) * sizeof(double);
}
cudaError_t launch_cross_entropy(const LossCall& call, DType dtype, cudaStream_t stream);
cudaError_t launch_cross_entropy_grad(const LossCall& call, DType dtype, cudaStream_t stream);
// The same with `stats`, for scores of that dtype; all else is in the type of the arithmetic.
cudaError_t launch_stats(const LossCall& call, DType scores, cudaStream_t stream);
cudaError_t launch_stats_grad(const LossCall& call, DType scores, cudaStream_t stream);

}  // namespace leat::cuda
