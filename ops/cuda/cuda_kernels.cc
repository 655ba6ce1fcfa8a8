#include "ops/cuda/cuda_kernels.h"

#include "devices/cuda/plain_ways.h"
#include "ops/cuda/cublaslt.h"

namespace leat::cuda {

Result<std::unique_ptr<Device>> open_cuda_device(int index) {
  LEAT_ASSIGN_OR_RETURN(std::unique_ptr<CudaDevice> device, CudaDevice::open(index));
  auto products = goes_plain_way("cublaslt")
                      ? Result<std::unique_ptr<CublasLt>>(unavailable("not wanted"))
                      : CublasLt::open(*device);
  if (products.ok())
    device->add_library(std::move(*products));
  else
    device->describe_further("without cuBLASLt");
  return std::unique_ptr<Device>(std::move(device));
}

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
