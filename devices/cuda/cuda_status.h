// Errors of the CUDA runtime as Status.
#pragma once

#include <cuda_runtime_api.h>

#include <string>
#include <string_view>

#include "devices/base/status.h"
#include "devices/base/text.h"

namespace leat::cuda {

// Ok for cudaSuccess. No memory is resource_exhausted; every other error stays with the device for
// good, and is internal. `subject` is whose call it was: "gpu:0: a copy to the device".
inline Status cuda_status(cudaError_t error, std::string_view subject) {
  if (error == cudaSuccess) return {};
  std::string message =
      cat(subject, ": ", cudaGetErrorName(error), ": ", cudaGetErrorString(error));
  if (error == cudaErrorMemoryAllocation) return resource_exhausted(std::move(message));
  return internal_error(std::move(message));
}

}  // namespace leat::cuda
