// Products of matrices on CUDA, by kernels of our own: for dtypes and machines without cuBLASLt.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "devices/base/dtype.h"

namespace leat::cuda {

// Y[b] = activation(alpha * op(A[b]) * op(B[b]) + beta * C), as Product in
// ops/definitions/product.h. K is added in order: the bits of an element follow from k alone.
struct ProductCall {
  const void *a = nullptr, *b = nullptr, *c = nullptr;  // c is null unless has_c
  void* y = nullptr;
  int64_t m = 0, n = 0, k = 0, lda = 0, ldb = 0;
  bool trans_a = false, trans_b = false, relu = false, has_c = false;
  double alpha = 1, beta = 1;
  int64_t c_row = 0, c_column = 0;
  int64_t items = 1, first_item = 0;
  const int64_t* offsets = nullptr;  // on the device: of A for each item, and then of B
};
cudaError_t launch_product(const ProductCall& call, DType dtype, cudaStream_t stream);

}  // namespace leat::cuda
