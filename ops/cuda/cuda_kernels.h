// One function for each op family: it adds the family's CUDA kernels to the definitions. An op
// without one is computed by the CPU of the task: docs/gpu.md lists those ops, with the reasons.
#pragma once

#include <memory>

#include "devices/core/device.h"
#include "ops/graph/op.h"

namespace leat::cuda {

// Opens the process' GPU as "gpu:<index>", with the libraries that its kernels use: see
// CudaDevice::open(). A library that the machine lacks, or that LEAT_GPU_PLAIN names, is left out,
// and the description of the device says so.
Result<std::unique_ptr<Device>> open_cuda_device(int index);

// Adds the kernels of all families. REQUIRES: the ops are in the catalogue.
void add_cuda_kernels(Catalogue& catalogue);

// Arithmetic, functions of single elements, comparisons, selections, Cast, Expand, leat.SumTree.
void add_pointwise_kernels(Catalogue& catalogue);
// Transpose, Concat, Split, Tile, Slice, Pad, Reshape and its kin, Constant, leat.Range, leat.Join.
void add_copy_kernels(Catalogue& catalogue);
// ReduceSum and the other reductions, leat.ReduceGrad, ArgMax and ArgMin.
void add_reduce_kernels(Catalogue& catalogue);
// leat.Elementwise.
void add_program_kernels(Catalogue& catalogue);
// Softmax, LogSoftmax, the losses, and their gradients.
void add_softmax_kernels(Catalogue& catalogue);
// MatMul, leat.MatMul and Gemm.
void add_matmul_kernels(Catalogue& catalogue);
// leat.Read, leat.Assign and its kin, and the optimizers.
void add_variable_kernels(Catalogue& catalogue);
// Random numbers and Dropout.
void add_random_kernels(Catalogue& catalogue);
// Conv, ConvTranspose, leat.ConvGradInput, leat.ConvGradWeights.
void add_conv_kernels(Catalogue& catalogue);
// MaxPool, AveragePool, their global variants, and the gradients.
void add_pool_kernels(Catalogue& catalogue);
// BatchNormalization, LayerNormalization, and their gradients.
void add_norm_kernels(Catalogue& catalogue);
// Attention and its gradient.
void add_attention_kernels(Catalogue& catalogue);
// Gather, its gradient, leat.ReadRows, GatherElements, and Trilu about the main diagonal.
void add_gather_kernels(Catalogue& catalogue);
// OneHot, CumSum, CumProd, TopK, GatherND, TensorScatter, and gradients of these and of Pad.
void add_indexing_kernels(Catalogue& catalogue);
// ScatterElements, ScatterND, and the gradients of GatherElements and GatherND.
void add_scatter_kernels(Catalogue& catalogue);
// Resize and its gradient.
void add_resize_kernels(Catalogue& catalogue);
// GridSample and its gradient.
void add_grid_sample_kernels(Catalogue& catalogue);
// leat.Recurrent and its gradient.
void add_recurrent_kernels(Catalogue& catalogue);

}  // namespace leat::cuda
