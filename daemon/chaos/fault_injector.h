// The faults that a job of --chaos brings upon one runner: a thread that waits for the step, or the
// time, of each, has it written down by the master, and does it.
//
// A fault of step n comes when n steps are done and none after has begun here: the run is not
// allowed to go on before the master has answered that the fault is in its journal, and the fault
// has come. So it comes once in the life of a job, however often the step is done again. One that
// the master does not answer for in time is left out. Where a runner does not see the job's steps
// the master says when a fault is due.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <vector>

#include "daemon/spec/chaos_fault.h"
#include "devices/base/log.h"
#include "devices/base/status.h"

namespace leat {

// A run whose steps are the job's. Threads: any.
class GatedRun {
 public:
  virtual ~GatedRun() = default;
  // Steps from this one on are not begun before the gate is moved.
  virtual void set_gate(uint64_t step) = 0;
  // Ok when so many steps of the job are done, deadline_exceeded, or why the run has failed.
  virtual Status await_step(uint64_t step, std::chrono::steady_clock::time_point deadline) = 0;
};

class FaultInjector {
 public:
  // Asks the master: ok when it is in the journal that the fault has come. Blocks; on the thread of
  // the faults, as `commit`.
  using Announce = std::function<Status(const ArmedFault&)>;
  using Commit = std::function<void(const ChaosFault&)>;

  // `patience`: with a master that cannot be asked.
  FaultInjector(Announce announce, Commit commit, Logger log,
                std::chrono::milliseconds patience = {});
  ~FaultInjector() { stop(); }
  FaultInjector(const FaultInjector&) = delete;
  FaultInjector& operator=(const FaultInjector&) = delete;

  // In place of those that are armed; one that has come does not come again. `ran`: for how long
  // the job has run.
  void arm(std::vector<ArmedFault> faults, std::chrono::milliseconds ran);
  // The run that steps the job from now on; not begun. Its gate is set when this returns.
  void watch(std::weak_ptr<GatedRun> run);
  // None comes any more; waits for one that is being announced.
  void stop();

 private:
  using Steady = std::chrono::steady_clock;

  // What the master is being asked. Without an answer it may have written the fault down.
  struct Asked {
    ArmedFault fault;
    Steady::time_point since;
    int times = 0;
  };

  void live();
  // Waits for the step of the next fault, for 20 ms at most and without the lock. True: the run
  // has done it.
  bool await_next(std::unique_lock<std::mutex>& lock, ArmedFault& due);
  void strike(std::unique_lock<std::mutex>& lock, const ArmedFault& due);
  bool asks_again(const Status& announced) const;
  // REQUIRES: the mutex is held. The next one by a step that is to be awaited; null if there is
  // none.
  const ArmedFault* next_by_step() const;
  bool take_due(ArmedFault& due) const;
  void move_gate();

  const Announce announce_;
  const Commit commit_;
  const Logger log_;
  const std::chrono::milliseconds patience_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<ArmedFault> faults_;
  uint64_t armed_ = 0;  // how often
  std::set<uint32_t> came_;
  std::optional<Asked> asked_;
  Steady::time_point job_began_;
  std::weak_ptr<GatedRun> run_;
  bool stopped_ = false;
  std::thread thread_;  // from the first fault on
};

}  // namespace leat
