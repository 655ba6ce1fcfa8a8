// The steps of a session that were launched and whose handles still exist.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "daemon/session/session_step.h"

namespace leat {

// SessionCore owns it. A step is in it from its launch until its handle is destroyed or waited for,
// so it also lists steps that are over and whose fetches were not taken yet.
// Threads: under the session's lock. The steps that its functions return are to be used without
// that lock.
class StepsInFlight {
 public:
  using Clock = std::chrono::steady_clock;
  // A step as it was when it was listed: it may serve another request later.
  struct Numbered {
    std::shared_ptr<SessionStep> step;
    // The step's number at that time. SessionStep::end() compares it and does nothing if the step
    // serves another request by now.
    uint64_t number;
  };

  // Numbers count from 0 in the order of the launches, over all plans of the session.
  uint64_t next_number() { return next_number_++; }
  void set_next_number(uint64_t number) { next_number_ = number; }
  // The map keeps the step alive until remove().
  void add(std::shared_ptr<SessionStep> step) { steps_.emplace(step.get(), std::move(step)); }
  // Takes the step out and returns the reference. REQUIRES: the step is in the map.
  std::shared_ptr<SessionStep> remove(SessionStep& step);

  // All steps, also those that are over. The references keep them alive without the lock.
  std::vector<Numbered> all() const;
  // The steps that are not over although their deadline has passed.
  std::vector<Numbered> late(Clock::time_point now) const;
  // The first deadline of a step that is not over; the end of time if there is none.
  Clock::time_point first_deadline() const;

 private:
  uint64_t next_number_ = 0;
  std::map<SessionStep*, std::shared_ptr<SessionStep>> steps_;
};

}  // namespace leat
