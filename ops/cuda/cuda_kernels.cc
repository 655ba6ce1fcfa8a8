#include "ops/cuda/cuda_kernels.h"

#include "devices/base/text.h"
#include "devices/cuda/plain_ways.h"
#include "ops/cuda/cublaslt.h"
#include "ops/cuda/cudnn.h"

namespace leat::cuda {

namespace {

template <typename Library>
void add_library(CudaDevice& device, std::string_view word) {
  auto library = goes_plain_way(word)
                     ? Result<std::unique_ptr<Library>>(unavailable("it is not wanted"))
                     : Library::open(device);
  if (library.ok())
    device.add_library(std::move(*library));
  else
    device.describe_further(cat("without ", Library::kName));
}

}  // namespace

Result<std::unique_ptr<Device>> open_cuda_device(int index) {
  LEAT_ASSIGN_OR_RETURN(std::unique_ptr<CudaDevice> device, CudaDevice::open(index));
  add_library<CublasLt>(*device, "cublaslt");
  add_library<Cudnn>(*device, "cudnn");
  return std::unique_ptr<Device>(std::move(device));
}

void add_cuda_kernels(Catalogue& catalogue) {
  add_pointwise_kernels(catalogue);
  add_copy_kernels(catalogue);
  add_reduce_kernels(catalogue);
  add_softmax_kernels(catalogue);
  add_program_kernels(catalogue);
  add_matmul_kernels(catalogue);
  add_variable_kernels(catalogue);
  add_random_kernels(catalogue);
  add_conv_kernels(catalogue);
  add_pool_kernels(catalogue);
  add_norm_kernels(catalogue);
  add_gather_kernels(catalogue);
  add_indexing_kernels(catalogue);
  add_scatter_kernels(catalogue);
  add_resize_kernels(catalogue);
  add_grid_sample_kernels(catalogue);
  add_recurrent_kernels(catalogue);
  add_attention_kernels(catalogue);
}

}  // namespace leat::cuda
