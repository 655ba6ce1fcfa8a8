// The GPU that a test runs on: the emulated one in cuda_tests, that of the machine in gpu_check.
#pragma once

#include <cstdint>
#include <memory>

#include "devices/base/status.h"
#include "devices/core/device.h"
#include "ops/graph/op.h"

namespace leat::testing {

// True for the emulated one, which has the CPU's C library.
bool gpu_is_emulated();
// The standard ops, with the kernels of the GPU where there are some.
const Catalogue& gpu_catalogue();
Result<std::unique_ptr<Device>> open_gpu();
// Before a test: an emulated GPU draws its schedule from `seed`, and with `reverse` starts the
// threads of a block from the last one. REQUIRES: no device is open.
void prepare_gpu(uint64_t seed = 0, bool reverse = false);

}  // namespace leat::testing
