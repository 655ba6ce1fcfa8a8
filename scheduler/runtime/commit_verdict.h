// The decision whether a step's writes to variables are made.
#pragma once

#include <atomic>
#include <cstdint>

#include "scheduler/runtime/program.h"

namespace leat {

// A program that commits writes a step's variables in a range of entries behind one deciding
// entry; nothing in that range waits or fails any more. At the deciding entry the step and the
// run's failure race: a step that decides first is written to its end, and of a step that comes
// second nothing is written. The job's Commits remember the step.
//
// Threads: the queries and decide(), refuse() and spoil() from any; the rest only on the thread
// that advances the run, announce() excepted, which any thread calls.
class CommitVerdict {
 public:
  explicit CommitVerdict(Program& program);

  // Tells the job's Commits, on the first call, that this program is about to write: from which
  // step on, or, for a program that does not commit, that the variables are of no known step.
  void announce(uint64_t first_step);

  // True if entry `e` of a turn writes what the deciding entry decided.
  bool covers(uint64_t e) const { return e > first_ && e < end_; }
  // The deciding entry, and the entry behind the last that writes. REQUIRES: covers() some entry.
  uint64_t deciding_entry() const { return first_; }
  uint64_t end() const { return end_; }

  // Decides that the turn's writes are made. False if the run failed first.
  bool decide(uint64_t turn);
  bool decided(uint64_t turn) const { return verdict_.load(std::memory_order_acquire) >> 1 > turn; }
  // Spins until the turn is decided, or never will be; true if its writes are to be made.
  bool await(uint64_t turn) const;
  // From now on no further turn is decided: the run has failed.
  void refuse() { verdict_.fetch_or(1, std::memory_order_acq_rel); }
  // A write failed: the variables are of no step in particular.
  void spoil() { spoiled_.store(true, std::memory_order_release); }

  // The turns that are decided, if there are more than at the last call and they are to be
  // remembered; else 0. REQUIRES: their writes are made.
  uint64_t take_decided();
  // The same turns, whether taken or not, of which an asynchronous device may have writes to make.
  uint64_t decided() const;
  // Remembers that the variables are those after the steps below `step`.
  void remember(uint64_t step);

 private:
  Program& program_;
  const uint64_t first_, end_;  // no entry lies between them if the program does not commit
  const bool remembers_;
  // Twice the number of decided turns; plus 1 once the run has failed.
  std::atomic<uint64_t> verdict_{0};
  std::atomic<bool> spoiled_{false};
  std::atomic<bool> announced_{false};
  uint64_t taken_ = 0;  // turns that take_decided() has returned
};

}  // namespace leat
