// The GPUs of the machine that runners may use. A process of its own looks at them, `leatd probe`:
// the worker holds no memory of a GPU, and a driver that hangs or crashes does it no harm.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "daemon/jobs/membership.h"
#include "devices/base/status.h"

namespace leat {

// Threads: a value.
struct Gpu {
  WorkerDevice device;  // "gpu:0", as it is called in the process that it is visible to alone
  std::string visible;  // the value of CUDA_VISIBLE_DEVICES for such a process
};

// Looks at the GPUs that this process may use, in the order in which CUDA numbers them. `program`:
// the leatd to run. No GPUs if Leat was built without their plugin. unavailable, with the reason,
// if the plugin cannot be loaded or the driver shows none; deadline_exceeded if a GPU has not
// answered within `patience`. Blocks.
Result<std::vector<Gpu>> find_gpus(const std::string& program, std::chrono::milliseconds patience);

// The value of CUDA_VISIBLE_DEVICES for a process that may use GPU `number` of those that
// `visible`, the value for this process, lists; of all if it is null.
std::string visible_gpu(const char* visible, int number);

// The main function of `leatd probe`: prints how many GPUs this process may use and the facts of
// the first one, or why there are none.
int run_probe();

}  // namespace leat
