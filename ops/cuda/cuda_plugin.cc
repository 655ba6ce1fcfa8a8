// The entry of libleat_cuda.so: see ops/graph/device_plugin.h.
#include "devices/cuda/built_for.h"
#include "devices/cuda/cuda_device.h"
#include "ops/cuda/cuda_kernels.h"
#include "ops/graph/device_plugin.h"

namespace leat::cuda {
namespace {

constexpr DevicePlugin kPlugin = {kPluginBuild,     "cuda",           CudaDevice::count,
                                  open_cuda_device, add_cuda_kernels, kBuiltFor};

}  // namespace
}  // namespace leat::cuda

extern "C" __attribute__((visibility("default"))) const leat::DevicePlugin* leat_device_plugin() {
  return &leat::cuda::kPlugin;
}
