// How far the devices of a job were in its training, as the master has heard last. It asks none,
// so that it also knows of runners that are lost.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "daemon/remote/remote_host.h"
#include "scheduler/plan/plan.h"

namespace leat {

// A report of a runner: so many steps of the job were done.
struct HeardSteps {
  uint64_t done = 0;
  std::chrono::steady_clock::time_point at;
};

// One device's part of a run that trains.
struct LastSteps {
  std::string worker;   // "w0"
  std::string device;   // "cpu:0"
  uint64_t number = 0;  // of the run: a job whose workers step by themselves has several
  // The job's steps that the master had allowed; none if it set no limit.
  std::optional<uint64_t> allowed;
  std::vector<HeardSteps> heard;  // the last reports with news, ascending
  std::shared_ptr<const Plan> plan;
};

// Returns the last runs that trained on these runners, by runner and then by age, be they over or
// not. Threads: any but the loop's.
std::vector<LastSteps> last_steps(std::span<const std::shared_ptr<RemoteHost>> hosts);

}  // namespace leat
