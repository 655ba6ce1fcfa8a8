// The faults of a job's chaos whose target is the master. The master triggers each at its step or
// time, after the journal has recorded it, and one after the other: a fault that ends the master
// leaves the later ones to the next master. If the journal cannot be written, the master asks
// again. If the workers step independently, only the master knows how many steps are done, so it
// also tells the runners which of their faults are due.
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
  // `apart`: the workers step independently of each other.
  MasterFaults(const RunningJobsParts& parts, const RunJob& action,
               const std::vector<ArmedFault>& faults, bool apart);
  // The faults that the runners must have before the first step.
  const std::vector<ArmedFault>& of_runners() const { return of_runners_; }
  // The job has completed `step` steps.
  void on_step(uint64_t step);

 private:
  void tell_runners(uint64_t step);

  const RunningJobsParts& parts_;
  const RunJob& action_;
  const std::chrono::steady_clock::time_point job_began_;
  struct Armed {
    ArmedFault fault;
    std::shared_ptr<std::atomic<bool>> asked;  // the journal was asked, or the fault has happened
  };
  struct Queue;
  static void ask_next(const std::shared_ptr<Queue>& queue);
  std::vector<Armed> faults_;
  const std::shared_ptr<Queue> queue_;
  std::vector<ArmedFault> of_runners_;  // armed on the runners
  std::vector<ArmedFault> by_step_;     // of runners, due by step: the master tells them; ascending
};

}  // namespace leat
