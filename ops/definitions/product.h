// One description of the computations of MatMul, leat.MatMul and Gemm.
#pragma once

#include <cstdint>
#include <vector>

#include "devices/base/status.h"
#include "ops/graph/kernel.h"

namespace leat {

// For each item b of the batch, Y[b] = activation(alpha * op(A[b]) * op(B[b]) + beta * C).
struct Product {
  bool trans_a = false, trans_b = false;
  int64_t m = 0, n = 0, k = 0;
  int64_t lda = 0, ldb = 0;
  double alpha = 1, beta = 1;
  bool relu = false;
  std::vector<int64_t> a_offsets,
      b_offsets;  // of each item, in elements; Y's items are contiguous
  bool has_c = false;
  int64_t c_row = 0, c_column = 0;  // strides of C over Y's rows and columns; 0: broadcast
  // The independent rows of Y's dimension 0. A row is a row of the product if there is one item,
  // else an item. rows == 0: Y cannot be cut.
  Tiling tiling;
  int64_t per_row = 1;

  int64_t items() const { return static_cast<int64_t>(a_offsets.size()); }
};

// The description from concrete types; invalid_argument if the inner sizes differ.
Result<Product> describe_matmul(const OpTypes& types);
Result<Product> describe_gemm(const OpTypes& types);

using DescribeProduct = Result<Product> (*)(const OpTypes&);

}  // namespace leat
