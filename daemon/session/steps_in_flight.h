// The steps of a session that were launched and whose handles still exist.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "daemon/session/session_step.h"

namespace leat {

// Threads: under the session's lock. The steps that its functions return are to be used without
// that lock.
class StepsInFlight {
 public:
  using Clock = std::chrono::steady_clock;
  // A step as it was when it was listed: it may serve another request later.
  struct Numbered {
    std::shared_ptr<SessionStep> step;
    uint64_t number;
  };

  uint64_t next_number() { return next_number_++; }
  void add(std::shared_ptr<SessionStep> step) { steps_.emplace(step.get(), std::move(step)); }
  std::shared_ptr<SessionStep> remove(SessionStep& step);

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
