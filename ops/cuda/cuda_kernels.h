// One function for each op family: it adds the family's CUDA kernels to the definitions. What has
// none is computed by the CPU of the task: docs/gpu.md lists those ops, with the reasons.
#pragma once

#include "ops/graph/op.h"

namespace leat::cuda {

// Adds the kernels of all families. REQUIRES: the ops are in the catalogue.
void add_cuda_kernels(Catalogue& catalogue);

// Arithmetic, functions of single elements, comparisons, selections, Cast, Expand, leat.SumTree.
void add_pointwise_kernels(Catalogue& catalogue);
// Transpose, Concat, Split, Tile, Slice, Pad, Reshape and its kin, Constant, leat.Range, leat.Join.
void add_copy_kernels(Catalogue& catalogue);
// ReduceSum and the other reductions, leat.ReduceGrad, ArgMax and ArgMin.
void add_reduce_kernels(Catalogue& catalogue);
// Softmax, LogSoftmax, the losses, and their gradients.
void add_softmax_kernels(Catalogue& catalogue);
// MatMul, leat.MatMul and Gemm.
void add_matmul_kernels(Catalogue& catalogue);
// leat.Read, leat.Assign and its kin, and the optimizers.
void add_variable_kernels(Catalogue& catalogue);
// Random numbers and Dropout.
void add_random_kernels(Catalogue& catalogue);

}  // namespace leat::cuda
