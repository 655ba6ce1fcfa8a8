#include "daemon/status/job_order.h"

#include <algorithm>

namespace leat {
namespace {

enum class Group : uint8_t { has_workers, queued, ended };

Group group_of(const JobView& job) {
  if (has_ended(job.condition.state)) return Group::ended;
  return job.condition.state == JobState::queued ? Group::queued : Group::has_workers;
}

}  // namespace

std::vector<const JobView*> in_shown_order(std::span<const JobView> jobs) {
  std::vector<const JobView*> ordered;
  for (const JobView& job : jobs) ordered.push_back(&job);
  std::sort(ordered.begin(), ordered.end(), [](const JobView* a, const JobView* b) {
    const Group group = group_of(*a), other = group_of(*b);
    if (group != other) return group < other;
    return group == Group::queued ? a->number < b->number : a->number > b->number;
  });
  return ordered;
}

}  // namespace leat
