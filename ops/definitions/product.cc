#include "ops/definitions/product.h"

#include <algorithm>

#include "devices/base/text.h"
#include "ops/graph/op.h"

namespace leat {
namespace {

// The axes before the matrix; none if the operand is a matrix or a vector.
Shape batch_of(const Shape& shape) {
  return Shape(shape.dims().first(static_cast<size_t>(std::max(0, shape.rank() - 2))));
}

// The offset of an operand's matrix for each item of the broadcast batch.
std::vector<int64_t> item_offsets(const Shape& own, const Shape& batch, int64_t matrix) {
  std::vector<int64_t> offsets(static_cast<size_t>(batch.elements()));
  for (size_t item = 0; item < offsets.size(); ++item) {
    // `rest` is decomposed into an index per batch axis, from the last one. An axis that the
    // operand lacks, or has with size 1, does not move it.
    int64_t rest = static_cast<int64_t>(item), index = 0, stride = 1;
    for (int axis = batch.rank() - 1; axis >= 0; --axis) {
      const int64_t position = rest % batch[axis];
      rest /= batch[axis];
      const int own_axis = axis - (batch.rank() - own.rank());
      if (own_axis < 0) continue;
      if (own[own_axis] != 1) index += position * stride;
      stride *= own[own_axis];
    }
    offsets[item] = index * matrix;
  }
  return offsets;
}

// Marks the operands that are of rows if dimension 0 of Y is a batch of items.
void tile_items(Product& p, const Shape& a, const Shape& b, const Shape& batch) {
  p.tiling.rows = batch[0];
  p.per_row = batch.elements(1, batch.rank());
  p.tiling.row_outputs = 1;
  if (a.rank() == batch.rank() && a[0] == batch[0]) p.tiling.row_inputs |= 1;
  if (b.rank() == batch.rank() && b[0] == batch[0]) p.tiling.row_inputs |= 2;
}

}  // namespace

Result<Product> describe_matmul(const OpTypes& types) {
  const Shape &a = types.inputs[0].shape, &b = types.inputs[1].shape;
  const bool vector_a = a.rank() == 1, vector_b = b.rank() == 1;
  Product p;
  p.trans_a = !vector_a && attr_int(*types.attrs, "transA") != 0;
  p.trans_b = !vector_b && attr_int(*types.attrs, "transB") != 0;
  p.alpha = attr_float(*types.attrs, "alpha", 1);
  p.relu = attr_string(*types.attrs, "leat_activation") == "relu";
  // A vector A is one row, and a vector B is one column.
  const int64_t a_rows = vector_a ? 1 : a[a.rank() - 2], a_columns = a[a.rank() - 1];
  const int64_t b_rows = vector_b ? b[0] : b[b.rank() - 2],
                b_columns = vector_b ? 1 : b[b.rank() - 1];
  p.m = p.trans_a ? a_columns : a_rows;
  p.k = p.trans_a ? a_rows : a_columns;
  p.n = p.trans_b ? b_rows : b_columns;
  // The distance of two rows in memory, whether the matrix is read transposed or not.
  p.lda = a_columns;
  p.ldb = b_columns;
  const auto batch = broadcast(batch_of(a), batch_of(b));
  if (!batch || (p.trans_b ? b_columns : b_rows) != p.k) {
    return invalid_argument(cat("inner sizes or batches differ, a is ", a, ", b is ", b));
  }
  // The third input of leat.MatMul is a bias [n]: one value for each column, the same for all rows.
  p.has_c = types.has_input(2);
  p.c_column = 1;
  const Shape a_batch = batch_of(a), b_batch = batch_of(b);
  // All items share B, and their rows of A are contiguous: they are one product of items * m rows.
  if (!p.trans_a && b_batch.elements() == 1 && a_batch == *batch) {  // one tall product
    p.a_offsets = p.b_offsets = {0};
    if (!vector_a) {
      p.tiling = {a[0], 1, 1};
      p.per_row = a.elements(1, a.rank() - 1);
      p.m *= a_batch.elements();
    }
    return p;
  }
  // A batch with a B of its own for some items: one product for each item.
  p.a_offsets = item_offsets(a_batch, *batch, a_rows * a_columns);
  p.b_offsets = item_offsets(b_batch, *batch, b_rows * b_columns);
  if (batch->rank() > 0) tile_items(p, a_batch, b_batch, *batch);
  // The product of one item is cut by its rows; a batch of one item needs no rule.
  if (p.items() == 1) p.tiling = {};
  return p;
}

Result<Product> describe_gemm(const OpTypes& types) {
  const Shape &a = types.inputs[0].shape, &b = types.inputs[1].shape;
  Product p;
  p.trans_a = attr_int(*types.attrs, "transA") != 0;
  p.trans_b = attr_int(*types.attrs, "transB") != 0;
  p.alpha = attr_float(*types.attrs, "alpha", 1);
  p.beta = attr_float(*types.attrs, "beta", 1);
  p.relu = attr_string(*types.attrs, "leat_activation") == "relu";
  p.m = a[p.trans_a ? 1 : 0];
  p.k = a[p.trans_a ? 0 : 1];
  p.n = b[p.trans_b ? 0 : 1];
  p.lda = a[1];
  p.ldb = b[1];
  p.a_offsets = p.b_offsets = {0};
  if (b[p.trans_b ? 1 : 0] != p.k) {
    return invalid_argument(cat("inner sizes differ, a is ", a, ", b is ", b));
  }
  // Rows of Y are rows of A only if A is not transposed.
  if (!p.trans_a) p.tiling = {p.m, 1, 1};
  p.has_c = types.has_input(2);
  if (!p.has_c) return p;
  // C is a scalar, a row, a column or a matrix. A stride of 0 repeats it along an axis.
  const Shape& c = types.inputs[2].shape;
  const int64_t rows = c.rank() < 2 ? 1 : c[0], columns = c.rank() < 1 ? 1 : c[c.rank() - 1];
  if ((rows != 1 && rows != p.m) || (columns != 1 && columns != p.n) || c.rank() > 2) {
    return invalid_argument(cat("C does not broadcast to [", p.m, ",", p.n, "], it is ", c));
  }
  p.c_row = rows == 1 ? 0 : columns;
  p.c_column = columns == 1 ? 0 : 1;
  if (p.tiling.rows > 0 && c.rank() == 2 && rows == p.m) p.tiling.row_inputs |= 4;
  return p;
}

}  // namespace leat
