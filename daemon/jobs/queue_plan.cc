#include "daemon/jobs/queue_plan.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <tuple>

namespace leat {

std::vector<uint64_t> queue_order(std::span<const QueuedJob> jobs) {
  // The jobs of each user in their own order: those that have workers, then by priority and number.
  std::vector<const QueuedJob*> all;
  for (const QueuedJob& each : jobs) all.push_back(&each);
  const auto own_order = [](const QueuedJob* job) {
    return std::tuple(job->waits, -job->priority, job->number);
  };
  std::sort(all.begin(), all.end(),
            [&](const QueuedJob* a, const QueuedJob* b) { return own_order(a) < own_order(b); });
  struct Place {
    const QueuedJob* job;
    size_t before;  // workers of its user
  };
  std::map<std::string_view, size_t> taken;
  std::vector<Place> places;
  for (const QueuedJob* each : all) {
    size_t& before = taken[each->user];
    if (each->waits) places.push_back({each, each->recovers ? 0 : before});
    before += each->workers;
  }
  const auto key = [](const Place& place) {
    const int64_t turn = place.job->recovers ? 0 : place.job->turn;
    return std::tuple(-place.job->priority, place.before, turn, place.job->number);
  };
  std::sort(places.begin(), places.end(),
            [&](const Place& a, const Place& b) { return key(a) < key(b); });
  std::vector<uint64_t> order;
  for (const Place& each : places) order.push_back(each.job->number);
  return order;
}

Reservation::Reservation(size_t wants, size_t free,
                         std::span<const std::optional<Clock::Steady>> busy) {
  std::vector<Clock::Steady> times;
  for (const auto& each : busy) {
    if (each) times.push_back(*each);
  }
  std::sort(times.begin(), times.end());
  if (wants <= free || wants - free > times.size()) return;
  shadow_ = times[wants - free - 1];
  const auto by_then = std::upper_bound(times.begin(), times.end(), *shadow_) - times.begin();
  extra_ = free + static_cast<size_t>(by_then) - wants;
}

bool Reservation::admits(size_t workers, std::optional<Clock::Steady> ends) const {
  if (workers == 0) return true;
  if (!shadow_) return false;
  return (ends && *ends <= *shadow_) || workers <= extra_;
}

void Reservation::take(size_t workers, std::optional<Clock::Steady> ends) {
  if (workers > 0 && !(ends && *ends <= *shadow_)) extra_ -= workers;
}

std::vector<uint64_t> jobs_to_preempt(std::vector<Yielding> candidates, size_t missing) {
  std::sort(candidates.begin(), candidates.end(), [](const Yielding& a, const Yielding& b) {
    return std::tuple(a.priority, b.number) < std::tuple(b.priority, a.number);
  });
  std::vector<Yielding> chosen;
  size_t freed = 0;
  for (const Yielding& each : candidates) {
    if (freed >= missing) break;
    if (each.workers == 0) continue;
    chosen.push_back(each);
    freed += each.workers;
  }
  if (freed < missing) return {};
  // A small job that was chosen first may not be needed beside a large one.
  std::erase_if(chosen, [&](const Yielding& each) {
    if (freed - each.workers < missing) return false;
    freed -= each.workers;
    return true;
  });
  std::vector<uint64_t> numbers;
  for (const Yielding& each : chosen) numbers.push_back(each.number);
  return numbers;
}

}  // namespace leat
