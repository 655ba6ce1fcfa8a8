#include "daemon/status/job_order.h"

#include <algorithm>

namespace leat {
namespace {

enum class Group : uint8_t { has_workers, queued, paused, ended };

Group group_of(const JobView& job) {
  if (has_workers(job.condition.state)) return Group::has_workers;
  if (job.condition.state == JobState::queued) return Group::queued;
  return job.condition.state == JobState::paused ? Group::paused : Group::ended;
}

}  // namespace

std::vector<const JobView*> in_shown_order(std::span<const JobView> jobs) {
  std::vector<const JobView*> ordered;
  for (const JobView& job : jobs) ordered.push_back(&job);
  std::sort(ordered.begin(), ordered.end(), [](const JobView* a, const JobView* b) {
    const Group group = group_of(*a), other = group_of(*b);
    if (group != other) return group < other;
    if (group != Group::queued) return a->number > b->number;
    // A job without a position is about to get one, or waits a while since it has failed.
    const auto key = [](const JobView* job) {
      return std::pair(job->position > 0 ? job->position : ~uint32_t{0}, job->number);
    };
    return key(a) < key(b);
  });
  return ordered;
}

}  // namespace leat
