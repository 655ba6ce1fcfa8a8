#include "daemon/session/steps_in_flight.h"

#include <algorithm>

namespace leat {

std::shared_ptr<SessionStep> StepsInFlight::remove(SessionStep& step) {
  // The step is in the map: its handle exists until now, and is destroyed once.
  const auto it = steps_.find(&step);
  std::shared_ptr<SessionStep> removed = std::move(it->second);
  steps_.erase(it);
  return removed;
}

std::vector<StepsInFlight::Numbered> StepsInFlight::all() const {
  std::vector<Numbered> all;
  // The pointer keeps the step alive without the lock, and the number tells later whether it still
  // serves the same request.
  for (const auto& [_, step] : steps_) all.push_back({step, step->number()});
  return all;
}

// The session's thread calls this each time it wakes.
std::vector<StepsInFlight::Numbered> StepsInFlight::late(Clock::time_point now) const {
  std::vector<Numbered> late;
  for (const auto& [_, step] : steps_) {
    if (!step->over() && step->deadline() <= now) late.push_back({step, step->number()});
  }
  return late;
}

StepsInFlight::Clock::time_point StepsInFlight::first_deadline() const {
  auto first = Clock::time_point::max();
  for (const auto& [_, step] : steps_) {
    if (!step->over()) first = std::min(first, step->deadline());
  }
  return first;
}

}  // namespace leat
