// Plain ways beside the libraries of NVIDIA: kernels of our own, launched one by one. They are
// taken where a library is missing or refuses, and where LEAT_GPU_PLAIN names it.
#pragma once

#include <string_view>

namespace leat::cuda {

// True if the environment variable LEAT_GPU_PLAIN, words with commas between them, has the word:
//   graphs     kernels are launched one by one, and not as CUDA graphs
//   cublaslt   products of matrices, and those within Attention, are computed by kernels of our own
//   tiles      Attention is not computed by tensor cores in tiles
//   cudnn      convolutions are computed by kernels of our own
//   ipc        values do not go from GPU to GPU by CUDA IPC
//   nccl       values do not go from GPU to GPU by NCCL
//   joined     each update of a variable is a launch of its own
// The variable is read anew at each call.
bool goes_plain_way(std::string_view word);

}  // namespace leat::cuda
