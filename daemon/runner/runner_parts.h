// The parts of a runner that all of its runs share.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "daemon/chaos/fault_injector.h"
#include "daemon/runner/device_memory.h"
#include "daemon/runner/run_links.h"
#include "daemon/runner/runner_config.h"
#include "daemon/runner/turn_log.h"
#include "devices/base/bounded_reading.h"
#include "devices/base/log.h"
#include "ops/data/saved_files.h"
#include "scheduler/runtime/device_host.h"

namespace leat {

// Files of this machine that a run wanted to read have not answered in time.
// The runner reports it to the master before the run fails.
struct StarvedInput {
  // The assembly of the run; the runner may be in a later one by the time of the report.
  uint64_t assembly = 0;
  std::string how;  // "'/data/x': expected its file system to answer within 10 s, ..."
  std::chrono::milliseconds waited{0};
};

// JobRunner owns it, and everything that it refers to outlives the runs. The callbacks are set
// before there are runs; each may be empty. JobRunner fills it.
struct RunnerParts {
  const RunnerConfig& config;
  // The ops that plans may name.
  const Catalogue& catalogue;
  // The device and its executor. All runs of the job share it.
  DeviceHost& host;
  RunLinks::Threads threads;
  DeviceMemory& memory;
  // Held while a run is bound: runs are bound one after the other, since each sets where its data
  // is.
  std::mutex& binding;
  // Given to each LiveRun.
  TurnLog::News news;
  Logger log;
  // Called with each run that trains the job, before its first step.
  std::function<void(std::shared_ptr<GatedRun>)> on_training = {};
  // Called on the run's strand when a link has failed by itself; may block for a second.
  std::function<void(FailedLink)> on_failed_link = {};
  // Called when files do not answer; may block for a second.
  std::function<void(StarvedInput)> on_starved = {};
  // Called when an accelerator has failed: it computes nothing any more, so that the process has to
  // end, and another one may find it well again. Must not block.
  std::function<void(const Status&)> on_failed_device = {};
  // The memory of the GPU that peers may still write to. The GPU outlives it.
  std::shared_ptr<direct::WireMemory> wire_memory = std::make_shared<direct::WireMemory>();
  // The place of the files that the job's graphs save; null: there is none.
  std::shared_ptr<SavedFiles> saved_files = {};
  // How long a file system may take to answer.
  std::chrono::milliseconds input_patience = ReadingLimits().answer;

  // The limits for reading data until `deadline`, as a part of that assembly.
  ReadingLimits reading(Deadline deadline, uint64_t assembly) const;
};

// The directory of a data set: by its name in the configuration, by the path that a name there
// stands for, or as an absolute path below what "/" maps. invalid_argument if it is none of these.
// The names are tried in this order. The message of the error lists the data sets that the worker
// has. The function does not look whether the directory exists.
Result<std::string> find_dataset(const RunnerConfig& config, const std::string& name);

}  // namespace leat
