// What MatMul, leat.MatMul and Gemm compute, in one description.
#pragma once

#include <cstdint>
#include <vector>

#include "devices/base/status.h"
#include "ops/graph/kernel.h"

namespace leat {

// Y[b] = activation(alpha * op(A[b]) * op(B[b]) + beta * C) for each item b of the batch.
struct Product {
  bool trans_a = false, trans_b = false;
  int64_t m = 0, n = 0, k = 0;
  int64_t lda = 0, ldb = 0;
  double alpha = 1, beta = 1;
  bool relu = false;
  std::vector<int64_t> a_offsets,
      b_offsets;  // of each item, in elements; Y's items follow each other
  bool has_c = false;
  int64_t c_row = 0, c_column = 0;  // C's strides over Y's rows and columns; 0: broadcast
  // Rows of dimension 0 of Y that are independent of each other, and what each of them holds: rows
  // of the product if there is one item, else items. rows == 0: cannot be cut.
  Tiling tiling;
  int64_t per_row = 1;

  int64_t items() const { return static_cast<int64_t>(a_offsets.size()); }
};

// From concrete types; inner sizes that disagree are invalid_argument.
Result<Product> describe_matmul(const OpTypes& types);
Result<Product> describe_gemm(const OpTypes& types);

using DescribeProduct = Result<Product> (*)(const OpTypes&);

}  // namespace leat
