// The entry of libleat_cuda.so: see ops/graph/device_plugin.h.
#include "ops/cuda/cuda_kernels.h"
#include "ops/graph/device_plugin.h"

namespace leat::cuda {
namespace {

constexpr DevicePlugin kPlugin = {kPluginBuild, "cuda", open_cuda_device, add_cuda_kernels};

}  // namespace
}  // namespace leat::cuda

extern "C" __attribute__((visibility("default"))) const leat::DevicePlugin* leat_device_plugin() {
  return &leat::cuda::kPlugin;
}
