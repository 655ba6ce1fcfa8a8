// The faults of a job's chaos that are the master's own: it brings them upon itself at the step, or
// the time, of each, once the journal says that they have come. While that has no room, it asks
// again.
//
// Threads: the one that trains.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <vector>

#include "daemon/chaos/chaos_fault.h"
#include "daemon/master/job_runs.h"

namespace leat {

class MasterFaults {
 public:
  // Those of `faults` that are the master's.
  MasterFaults(const JobRunsParts& parts, const RunJob& action, std::vector<ArmedFault> faults);
  // So many steps of the job are done.
  void on_step(uint64_t step);

 private:
  const JobRunsParts& parts_;
  const RunJob& action_;
  const std::chrono::steady_clock::time_point job_began_;
  struct Armed {
    ArmedFault fault;
    std::shared_ptr<std::atomic<bool>> asked;  // or it has come
  };
  std::vector<Armed> faults_;
};

}  // namespace leat
