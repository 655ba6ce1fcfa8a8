// The runners of one epoch of a job, one on each of its workers: who was asked to start, who is
// there, who is gone. Workers of a job's next epoch are leased only when all runners are gone.
//
//   leased ──► asked ──► there ──► gone      leased ──► gone, asked ──► gone
//
// Threads: one.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "daemon/jobs/leases.h"
#include "devices/base/clock.h"

namespace leat {

class Assembly {
 public:
  Assembly() = default;  // nobody: all are gone
  explicit Assembly(std::span<const WorkerRef> workers);

  bool all_gone() const { return count(Phase::gone) == members_.size(); }
  // Never of nobody.
  bool all_there() const { return !members_.empty() && count(Phase::there) == members_.size(); }
  bool is_leased() const { return count(Phase::leased) > 0; }
  std::vector<WorkerRef> workers() const;

  // All leased ones are asked now, and have until `deadline` to be there. In order of rank.
  std::vector<WorkerRef> ask(Clock::Steady deadline);
  // False if no runner is expected there.
  bool arrived(const WorkerRef& worker);
  // False if there is none that is not gone.
  bool left(const WorkerRef& worker);

  // Those that have to be told to stop, each once; the first call sets by when they have to be
  // gone. Those that were not asked to start are gone at once, and come in `released`.
  std::vector<WorkerRef> stop(Clock::Steady deadline, std::vector<WorkerRef>& released);
  bool is_stopping() const { return stopping_; }

  // Who was to be there, or to be gone, by a deadline before `now`.
  std::vector<WorkerRef> late(Clock::Steady now) const;

 private:
  enum class Phase : uint8_t { leased, asked, there, gone };
  struct Member {
    WorkerRef worker;
    Phase phase = Phase::leased;
    bool told = false;  // to stop
  };
  size_t count(Phase phase) const;
  Member* find(const WorkerRef& worker);

  std::vector<Member> members_;
  bool stopping_ = false;
  Clock::Steady deadline_ = Clock::Steady::max();
};

}  // namespace leat
