// Recurrent cells on CUDA, step after step. The formulas are in ops/definitions/recurrent.h. Values
// between the kernels of a step are compute types in a workspace; the operands and results are T.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "devices/base/dtype.h"
#include "ops/elements/cell_activation.h"

namespace leat::cuda {

enum class CellKind : uint8_t { lstm, gru, rnn };

struct RecurrentShape {
  CellKind cell = CellKind::lstm;
  bool reverse = false, input_forget = false, linear_before_reset = false;
  double clip = 0;
  CellActivation activations[3];
  int64_t steps = 0, rows = 0, state = 0, columns = 0;  // columns: gates times state
  // A GRU whose reset comes before the product.
  LEAT_INLINE bool resets_first() const { return cell == CellKind::gru && !linear_before_reset; }
};

// Null where absent.
struct RecurrentCall {
  RecurrentShape shape;
  const void *x = nullptr, *r = nullptr, *h = nullptr, *c = nullptr, *extra = nullptr;
  const int32_t* lengths = nullptr;
  void *y = nullptr, *last_h = nullptr, *last_c = nullptr, *gates = nullptr, *states = nullptr;
  void* workspace = nullptr;  // of recurrent_workspace() bytes
};
size_t recurrent_workspace(const RecurrentShape& shape, DType dtype);
cudaError_t launch_recurrent(const RecurrentCall& call, DType dtype, cudaStream_t stream);

struct RecurrentGradCall {
  RecurrentShape shape;
  const void *r = nullptr, *y = nullptr, *gates = nullptr, *states = nullptr;
  const void *h = nullptr, *c = nullptr, *extra = nullptr;
  const int32_t* lengths = nullptr;
  const void *dy = nullptr, *dlast_h = nullptr, *dlast_c = nullptr;
  // dproducts: of the products of the state with r; before_h, before_c: the states before each
  // step.
  void *dx = nullptr, *dproducts = nullptr, *dh = nullptr, *dc = nullptr, *before_h = nullptr,
       *before_c = nullptr;
  void* workspace = nullptr;  // of recurrent_grad_workspace() bytes
};
size_t recurrent_grad_workspace(const RecurrentShape& shape, DType dtype);
cudaError_t launch_recurrent_grad(const RecurrentGradCall& call, DType dtype, cudaStream_t stream);

}  // namespace leat::cuda
