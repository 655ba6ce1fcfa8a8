// The first steps of a runner's process, before it has threads: it reads its boot message from its
// worker, and confines itself.
#pragma once

#include <vector>

#include "daemon/confine/confinement.h"
#include "daemon/runner/runner_config.h"
#include "devices/base/status.h"
#include "transport/io/descriptor.h"

namespace leat {

// The socket to the worker.
inline constexpr int kWorkerDescriptor = 3;

struct StartedRunner {
  RunnerConfig config;
  std::vector<LayerState> layers;  // of its confinement; empty if that is off
  Descriptor signals;              // a signalfd of SIGTERM and SIGINT, which all threads block
};

// Ties this process to the end of its worker, reads the boot message, and confines the process.
// Nothing that a master, a peer or a graph has sent was read before. Errors: those of
// read_runner_config() and of confine_process(). Blocks up to `deadline`.
// REQUIRES: this process has one thread.
Result<StartedRunner> start_runner(Deadline deadline);

}  // namespace leat
