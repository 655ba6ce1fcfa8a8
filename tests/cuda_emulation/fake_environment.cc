// Faults of the fake runtime in a process that a test starts, such as a runner that loads the
// plugin:
//
//   LEAT_FAKE_CUDA_MEMORY=1048576         the memory of the device, in bytes
//   LEAT_FAKE_CUDA_FAULT='FILE lost 300'  the device is lost at the 300th launch
//   LEAT_FAKE_CUDA_FAULT='FILE lost cudaMalloc 3'  the device is lost at the 3rd call of a function
//   LEAT_FAKE_CUDA_FAULT='FILE cudaEventRecord 40'  the 40th call of this function fails
//   LEAT_FAKE_CUDA_FAULT='FILE nccl hang 3'  a fault of fake_nccl::plant()
//
// The fault is that of the first process that removes FILE, so that the next one goes on without
// it.
#include <cctype>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string>

#include "tests/cuda_emulation/fake_nccl.h"
#include "tests/cuda_emulation/fake_runtime.h"

namespace fake_cuda {

void take_faults_of_environment() {
  if (const char* bytes = std::getenv("LEAT_FAKE_CUDA_MEMORY"))
    limit_memory(std::strtoull(bytes, nullptr, 10));
  const char* fault = std::getenv("LEAT_FAKE_CUDA_FAULT");
  if (!fault) return;
  std::istringstream words(fault);
  std::string file, function;
  words >> file >> function;
  std::string fault_of_nccl;
  if (function == "nccl") words >> fault_of_nccl;
  const bool is_lost = function == "lost";
  const bool at_launch = is_lost && std::isdigit((words >> std::ws).peek());
  if (is_lost && !at_launch) words >> function;
  uint64_t nth = 0;
  words >> nth;
  if (std::remove(file.c_str()) != 0) return;
  if (function == "nccl")
    fake_nccl::plant(fault_of_nccl, nth);
  else if (at_launch)
    lose_device(nth);
  else if (is_lost)
    lose_device_at(function.c_str(), nth);
  else
    fail_call(function.c_str(), nth, cudaErrorUnknown);
}

}  // namespace fake_cuda
