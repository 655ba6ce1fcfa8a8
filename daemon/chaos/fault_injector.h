// The faults that a job with --chaos causes in one runner. A thread waits for the step, or the
// time, of each fault, has the master write the fault to its journal, and then injects it.
//
// A fault of step n happens when n steps are done and no later step has begun here: the run may not
// continue until the master has confirmed the fault and it has happened. Therefore each fault
// happens once in the life of a job, even if the step is repeated. If the master does not answer in
// time, the fault is skipped. If a runner cannot see the job's steps, the master decides when a
// fault is due.
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
  // Runs of one number are the parts of one run: a step is done when all of them have done it.
  virtual uint64_t number() const { return 0; }
  // Sets the gate: the run does not begin this step or later ones until the gate moves. Never
  // blocks.
  virtual void set_gate(uint64_t step) = 0;
  // Blocks until so many steps of the job are done: ok, deadline_exceeded, or the error of the run.
  virtual Status await_step(uint64_t step, std::chrono::steady_clock::time_point deadline) = 0;
};

// Owns the thread of the faults. Threads: any. A runner has one for its whole life. Without faults
// it starts no thread and lets all steps pass.
class FaultInjector {
 public:
  // Asks the master to write a fault to its journal: ok when it is there. Blocks. It runs on the
  // thread of the faults, like `commit`, which injects the fault.
  using Announce = std::function<Status(const ArmedFault&)>;
  using Commit = std::function<void(const ChaosFault&)>;

  // `patience`: how long a fault is announced again while the master cannot be reached.
  FaultInjector(Announce announce, Commit commit, Logger log,
                std::chrono::milliseconds patience = {});
  ~FaultInjector() { stop(); }
  FaultInjector(const FaultInjector&) = delete;
  FaultInjector& operator=(const FaultInjector&) = delete;

  // Replaces the faults to inject; one that has happened is not repeated. `ran` is the time that
  // the job has run so far. Moves the gates of the runs at once. A fault whose announcement is
  // under way stays, also if it is not among `faults`.
  void arm(std::vector<ArmedFault> faults, std::chrono::milliseconds ran);
  // Sets the run whose steps are the job's from now on, or adds a part to that run. It must not
  // have begun. Its gate is set when this returns. The injector never keeps a run alive for longer
  // than 20 ms.
  void watch(const std::shared_ptr<GatedRun>& run);
  // Ends the thread: no fault happens after that. Waits for an announcement in progress.
  void stop();

 private:
  using Steady = std::chrono::steady_clock;

  // The fault that the master is asked to confirm. Even without an answer, the master may have
  // written it to its journal.
  struct Asked {
    ArmedFault fault;
    Steady::time_point since;
    int times = 0;
  };

  void live();
  // Waits for the step of the next fault, for at most 20 ms and without the lock. Returns true if
  // all runs have done that step.
  bool await_next(std::unique_lock<std::mutex>& lock, ArmedFault& due);
  // Announces one fault, and commits it if the master agrees. Called with the lock, which is free
  // meanwhile.
  void strike(std::unique_lock<std::mutex>& lock, const ArmedFault& due);
  bool asks_again(const Status& announced) const;
  // Returns the next fault that has a step to wait for; null if there is none. REQUIRES: the mutex
  // is held.
  const ArmedFault* next_by_step() const;
  // Finds a fault that the master has declared due, or whose time has come. REQUIRES: the mutex is
  // held.
  bool take_due(ArmedFault& due) const;
  // Puts the gates of the runs before the next fault, or far away without one. REQUIRES: the mutex
  // is held.
  void move_gates();
  // Forgets runs that are gone. True if one is left. REQUIRES: the mutex is held.
  bool has_runs();

  const Announce announce_;
  const Commit commit_;
  const Logger log_;
  const std::chrono::milliseconds patience_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<ArmedFault> faults_;
  uint64_t armed_ = 0;       // the number of calls of arm()
  std::set<uint32_t> came_;  // the indexes of faults that have happened
  std::optional<Asked> asked_;
  Steady::time_point job_began_;
  uint64_t number_ = 0;                        // of the run
  std::vector<std::weak_ptr<GatedRun>> runs_;  // its parts
  bool stopped_ = false;
  std::thread thread_;  // started with the first fault
};

}  // namespace leat
