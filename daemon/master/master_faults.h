// The faults of a job's chaos that are the master's own: it brings them upon itself at the step, or
// the time, of each, once the journal says that they have come: one after the other, since one that
// ends the master leaves those behind it for the next one. While the journal has no room, it asks
// again. Where each worker does steps of its own, nobody but the master knows how many are done: it
// tells runners which of theirs are due.
//
// Threads: the one that trains.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <vector>

#include "daemon/master/running_jobs.h"
#include "daemon/spec/chaos_fault.h"

namespace leat {

class MasterFaults {
 public:
  // `apart`: each worker does steps of its own.
  MasterFaults(const RunningJobsParts& parts, const RunJob& action,
               const std::vector<ArmedFault>& faults, bool apart);
  // What runners are to know before the first step.
  const std::vector<ArmedFault>& of_runners() const { return of_runners_; }
  // So many steps of the job are done.
  void on_step(uint64_t step);

 private:
  void tell_runners(uint64_t step);

  const RunningJobsParts& parts_;
  const RunJob& action_;
  const std::chrono::steady_clock::time_point job_began_;
  struct Armed {
    ArmedFault fault;
    std::shared_ptr<std::atomic<bool>> asked;  // or it has come
  };
  struct Queue;
  static void ask_next(const std::shared_ptr<Queue>& queue);
  std::vector<Armed> faults_;
  const std::shared_ptr<Queue> queue_;
  std::vector<ArmedFault> of_runners_;  // that they know
  std::vector<ArmedFault> by_step_;     // which they are to be told, ascending
};

}  // namespace leat
