// One description of the computations of MatMul, leat.MatMul and Gemm, made from concrete shapes:
// the kernels have one loop over products, and do not know the ops.
#pragma once

#include <cstdint>
#include <vector>

#include "devices/base/status.h"
#include "ops/graph/kernel.h"

namespace leat {

// For each item b of the batch, Y[b] = activation(alpha * op(A[b]) * op(B[b]) + beta * C). op is
// the identity or the transposition. op(A) is [m, k], op(B) is [k, n], and Y[b] is [m, n].
//
// A batch whose items share one B, with A not transposed, is one tall product: it has one item, and
// m counts the rows of all items.
struct Product {
  bool trans_a = false, trans_b = false;
  int64_t m = 0, n = 0, k = 0;
  // The number of elements from one row of A (of B) in memory to the next, transposed or not.
  int64_t lda = 0, ldb = 0;
  double alpha = 1, beta = 1;
  // The activation: true for relu, false for none.
  bool relu = false;
  // The offset of each item, in elements; Y's items are contiguous. Items repeat an offset if their
  // operand broadcasts over the batch. No entries: the batch is empty, and there is nothing to do.
  std::vector<int64_t> a_offsets, b_offsets;
  bool has_c = false;
  // The strides of C over Y's rows and columns, in elements; 0: C is the same for all of them. All
  // items have the same C.
  int64_t c_row = 0, c_column = 0;
  // The independent rows of Y's dimension 0. A row is a row of the product if there is one item,
  // else an item. rows == 0: Y cannot be cut.
  Tiling tiling;
  // The number of rows of the product (one item), or of items (else), in each row of the tiling.
  int64_t per_row = 1;

  int64_t items() const { return static_cast<int64_t>(a_offsets.size()); }
};

// The description from concrete types. MatMul follows numpy.matmul: the axes before the last two
// are a batch, which broadcasts; a vector A is one row and a vector B one column. leat.MatMul adds
// transA, transB, alpha, leat_activation and a bias [n] as input 2; the transposition of a vector
// has no effect.
//
// invalid_argument if the inner sizes differ or the batches do not broadcast. Inference accepts
// symbolic sizes that may be equal, so a kernel meets these errors when it is made. The message has
// no subject.
Result<Product> describe_matmul(const OpTypes& types);
// The same for ONNX's Gemm: A and B are matrices, and C is a scalar, a row [n], a column [m, 1] or
// a matrix. invalid_argument if C does not broadcast to [m, n], too.
Result<Product> describe_gemm(const OpTypes& types);

// One of the two functions above: rules and kernels of the three ops are templates over it.
using DescribeProduct = Result<Product> (*)(const OpTypes&);

}  // namespace leat
