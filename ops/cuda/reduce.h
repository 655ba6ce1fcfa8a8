// Reductions on CUDA. Sums have the tree of ops/elements/tree_sum.h, and so the CPU's bits: a warp
// folds a line as 32 lanes do there.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "devices/base/dtype.h"
#include "devices/base/inline.h"

namespace leat::cuda {

inline constexpr int kMostLoops = 8;

struct LoopNest {
  int count = 0;
  int64_t total = 1;
  int64_t sizes[kMostLoops] = {}, strides[kMostLoops] = {};
};

// A reduction, as ReduceShape in ops/definitions/reduce_shape.h describes it.
struct ReduceCall {
  const void* x = nullptr;
  void* y = nullptr;
  void* workspace = nullptr;
  int reduction = 0;  // the number of the Reduction
  int64_t rows = 1, row_elements = 1, row_results = 1, folded = 1;
  bool line_reduced = false;
  int64_t line = 1;
  LoopNest kept, reduced;

  LEAT_INLINE int64_t results() const { return rows * row_results; }
};

// The bytes of the workspace that launch_reduce() needs.
size_t reduce_workspace(const ReduceCall& call, DType dtype);
// REQUIRES: there are elements; an empty input has its results from empty_result_bits().
cudaError_t launch_reduce(const ReduceCall& call, DType dtype, cudaStream_t stream);
// The result of a reduction of no elements, in the lowest bytes.
uint64_t empty_result_bits(int reduction, DType dtype);

// For max, min and prod: counts the elements of each result that are equal to it (prod: that are
// zero), and multiplies the others. `y` is the result; the counts, int64, are written to the
// workspace, and behind them the products, in the type of the arithmetic.
cudaError_t launch_count_hits(const ReduceCall& call, DType dtype, cudaStream_t stream);
size_t hits_workspace(const ReduceCall& call);

// dx of `elements` elements of x. result[...] of element i is found by sizes and steps, as in
// PointwiseCall.
struct ReduceGradCall {
  int64_t elements = 0;
  const void *dy = nullptr, *x = nullptr, *y = nullptr;
  void* dx = nullptr;
  const void* workspace = nullptr;  // of launch_count_hits(), if the reduction counts
  int64_t results = 0;
  int reduction = 0;
  int64_t folded = 1;
  int rank = 0;
  int64_t sizes[kMostLoops] = {}, steps[kMostLoops] = {};
};
cudaError_t launch_reduce_grad(const ReduceGradCall& call, DType dtype, cudaStream_t stream);

// The index of the largest or smallest element along the middle axis of [outer, size, inner].
struct ArgCall {
  const void* x = nullptr;
  int64_t* y = nullptr;
  int64_t outer = 0, size = 0, inner = 0;
  bool largest = true, last = false;
};
cudaError_t launch_arg(const ArgCall& call, DType dtype, cudaStream_t stream);

}  // namespace leat::cuda
