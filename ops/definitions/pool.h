// Functions of the pool ops that compiler passes and kernels use. Data is [N, C, sizes...] with one
// to three spatial axes, as in ONNX.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "devices/base/text.h"
#include "ops/definitions/window.h"
#include "ops/graph/graph.h"
#include "ops/graph/types.h"

namespace leat {

// The attributes of the leat.MaxPoolGrad for a MaxPool or GlobalMaxPool over data of shape `x`:
// kernel_shape, strides, dilations, explicit pads, ceil_mode, and `spatial`, the spatial sizes of
// x. The result is empty if x's spatial sizes are not known, if the node is neither op, or if its
// attributes are no valid window.
std::optional<Attrs> max_pool_grad_attrs(const Node& pool, const SymbolicShape& x);

// The index of such a node's output argmax, which is the second input of the gradient: 1 for
// GlobalMaxPool, 2 for MaxPool, whose output 1 is ONNX's Indices. The output has an entry for each
// element of Y: the row-major index of the maximum within its window. The node may lack it; the
// caller adds it with Graph::ensure_output(). REQUIRES: the node is one of the two ops.
int argmax_output(const Node& pool);

// Bit i: operand i is present.
uint32_t all_present(const std::vector<OperandType>& operands);

// The attributes of a pool over data of this rank, with kernel_shape from the node.
// invalid_argument if the rank is not 3, 4 or 5, if kernel_shape has not one size for each spatial
// axis, if the window has more than kMostWindow elements, or if read_window() refuses the rest.
// Errors have no subject.
inline Result<WindowAttrs> pool_window(const Attrs& attrs, int rank) {
  auto kernel = attr_ints(attrs, "kernel_shape");
  if (rank < 3 || rank > 5 || static_cast<int>(kernel.size()) != rank - 2) {
    return invalid_argument(
        cat("expected data of rank 3, 4 or 5 and its kernel_shape, received rank ", rank, " and ",
            kernel.size(), " sizes"));
  }
  LEAT_ASSIGN_OR_RETURN(WindowAttrs window, read_window(attrs, std::move(kernel)));
  int64_t area = 1;
  for (int64_t size : window.kernel) {
    const auto product = checked_mul(area, size);
    if (!product || *product > kMostWindow)
      return invalid_argument(cat("kernel_shape: expected at most ", kMostWindow, " elements"));
    area = *product;
  }
  return window;
}

// The window of a global pool over these spatial sizes: it spans the whole input, in one step and
// without pads.
inline WindowAttrs global_window(const std::vector<int64_t>& spatial) {
  WindowAttrs window;
  window.kernel = spatial;
  window.strides = window.dilations = std::vector<int64_t>(spatial.size(), 1);
  window.begin = window.end = std::vector<int64_t>(spatial.size(), 0);
  return window;
}

// The dtype of argmax for windows of `area` elements: the indices up to 255 fit a byte, which is a
// quarter of the memory traffic between the pool and its gradient. REQUIRES: area fits an int32.
inline DType argmax_type(int64_t area) { return area <= 256 ? DType::u8 : DType::i32; }

}  // namespace leat
