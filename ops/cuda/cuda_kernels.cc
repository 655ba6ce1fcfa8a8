#include "ops/cuda/cuda_kernels.h"

namespace leat::cuda {

void add_cuda_kernels(Catalogue& catalogue) {
  add_pointwise_kernels(catalogue);
  add_copy_kernels(catalogue);
  add_reduce_kernels(catalogue);
  add_softmax_kernels(catalogue);
  add_matmul_kernels(catalogue);
  add_variable_kernels(catalogue);
  add_random_kernels(catalogue);
  add_conv_kernels(catalogue);
  add_pool_kernels(catalogue);
  add_norm_kernels(catalogue);
  add_gather_kernels(catalogue);
  add_attention_kernels(catalogue);
}

}  // namespace leat::cuda
