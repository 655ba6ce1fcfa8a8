// Attention and its gradient by products of cuBLASLt, which use tensor cores, with a kernel of our
// own between them. The scores of some heads at a time are in memory. It needs one head of Q for
// each head of K and V; other cases are the plain kernels'.
#pragma once

#include <memory>

#include "ops/cuda/attention.h"
#include "ops/cuda/cublaslt.h"

namespace leat::cuda {

// Threads: enqueue() on the thread that enqueues the device's work.
class AttentionProducts {
 public:
  struct Form {
    DType dtype = DType::f32;
    bool gradient = false;  // of Attention, or Attention itself
    bool tf32 = false;      // products may round their factors to TF32: KernelSetup::tf32
  };
  // Null if heads are shared, or the library refuses a product. `library` outlives it.
  static std::shared_ptr<AttentionProducts> make(const CublasLt& library, const AttentionCall& call,
                                                 const Form& form);

  // The bytes of the device that enqueue() needs.
  size_t workspace_bytes() const { return products_at_ + product_bytes_; }
  // True if the operands are as aligned as the products need.
  bool takes(const AttentionCall& call) const;
  // Attention, or its gradient, as make() was told.
  cudaError_t enqueue(const AttentionCall& call, std::byte* workspace, cudaStream_t stream) const;

 private:
  AttentionProducts(const AttentionCall& call, const Form& form);
  std::shared_ptr<LibraryProduct> product(const CublasLt& library, ProductCall call,
                                          ProductLayout layout);
  bool make_products(const CublasLt& library, const AttentionCall& call);

  const DType dtype_;
  const bool gradient_, tf32_;
  int64_t at_a_time_ = 1;  // items of the batch; all of a batch's heads are one batch of products
  int64_t repeats_ = 1;
  int64_t items_ = 0;  // heads at a time
  int64_t pairs_ = 0;  // scores of one head
  // In the workspace: scores and weights, those of the gradient, and the products' own.
  size_t weights_at_ = 0, score_grads_at_ = 0, weight_grads_at_ = 0, products_at_ = 0;
  size_t product_bytes_ = 0;
  std::shared_ptr<LibraryProduct> scores_, attended_, weight_grads_, dq_, dk_, dv_;
};

}  // namespace leat::cuda
