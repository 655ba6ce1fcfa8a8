// How far a run has come, and how it ended.
#pragma once

#include <atomic>
#include <cstdint>

#include "devices/base/status.h"
#include "devices/core/device.h"
#include "scheduler/runtime/commit_verdict.h"
#include "scheduler/runtime/program.h"
#include "scheduler/runtime/run_options.h"

namespace leat {

// Counts a run's finished turns and keeps its first failure. A failure ends every wait on the run:
// its own, those of its peers over the channels, and those of callers on finished().
//
// Threads: finish() and turns() only on the thread that advances the run; the rest from any.
class RunOutcome {
 public:
  // All three outlive the outcome.
  RunOutcome(Program& program, const RunOptions& options, CommitVerdict& verdict)
      : program_(program), options_(options), verdict_(verdict) {}

  // Fails the run with `cause`. Only the first cause counts.
  void abort(const Status& cause);
  // Fails the run since the instruction failed in the job's step `step`; the cause names both.
  void fail(uint64_t step, uint32_t instruction, const Status& status);
  // Fails the run if what it awaits can never come, since that timeline has failed; true then.
  bool fails_with(const Awaited& awaited);
  bool failed() const { return failed_.load(std::memory_order_acquire); }

  // The turns below `turns` are over.
  void finish(uint64_t turns);
  uint64_t turns() const { return turns_; }
  // At n when n turns are over; fails when the run fails.
  Timeline& finished() { return finished_; }
  const Timeline& finished() const { return finished_; }

 private:
  Program& program_;
  const RunOptions& options_;
  CommitVerdict& verdict_;
  uint64_t turns_ = 0;
  std::atomic<bool> failed_{false};
  Timeline finished_;
};

}  // namespace leat
