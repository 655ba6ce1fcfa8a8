// The decisions of the queue, as functions of values: the order of the jobs that wait, what a job
// may take while an earlier one waits, and which jobs make way. job_queue.h applies them.
//
// Threads: pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "devices/base/clock.h"

namespace leat {

// A job that has not ended and is not paused.
struct QueuedJob {
  uint64_t number = 0;
  int64_t priority = 0;
  std::string user;
  size_t workers = 0;     // that it has, or waits for
  int64_t turn = 0;       // when a job of its user began last, in any unit; 0: none has
  bool waits = false;     // for workers
  bool recovers = false;  // it has run, and waits for workers in the place of others
};

// Returns the numbers of the jobs that wait, in their order:
//
// 1. by priority, the highest first;
// 2. by fair share: a job stands behind the workers that its user has, or waits for with jobs
//    before it; of equals the one whose user began a job the longest time ago goes first. So users
//    whose jobs have the same priority take turns, and the jobs of one user stay in their order. A
//    job that recovers stands behind nothing;
// 3. by the order of submission.
//
// With finitely many users, a job comes to the front of its priority in the end: it goes behind the
// earlier jobs of its user, and then behind one turn of each other user.
std::vector<uint64_t> queue_order(std::span<const QueuedJob> jobs);

// The workers that the first job that has to wait will get, and the time (EASY backfill: Lifka, The
// ANL/IBM SP Scheduling System, 1995). A later job may start before it if that does not delay the
// first one: it has left its workers by the shadow time, or takes only extra workers.
class Reservation {
 public:
  // Of a job that wants `wants` workers, of which `free` are free; the others become free by these
  // times, or by no known time.
  Reservation(size_t wants, size_t free, std::span<const std::optional<Clock::Steady>> busy);

  // The time by which the job can start at the latest; nothing if that is not known.
  std::optional<Clock::Steady> shadow_time() const { return shadow_; }
  // True if another job may take `workers` workers that the first one could use, until `ends`.
  bool admits(size_t workers, std::optional<Clock::Steady> ends) const;
  // The other job takes them. REQUIRES: admits().
  void take(size_t workers, std::optional<Clock::Steady> ends);

 private:
  std::optional<Clock::Steady> shadow_;
  size_t extra_ = 0;  // workers that are free at the shadow time, and that the job does not want
};

// A running job that may be asked for workers.
struct Yielding {
  uint64_t number = 0;
  int64_t priority = 0;
  size_t workers = 0;  // that the waiting job could use
};

// Returns the jobs that make way for one that lacks `missing` workers: those of the lowest
// priority, and of these the last submitted, but none that is not needed. None if all of them are
// too few.
std::vector<uint64_t> jobs_to_preempt(std::vector<Yielding> candidates, size_t missing);

}  // namespace leat
