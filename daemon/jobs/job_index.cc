#include "daemon/jobs/job_index.h"

#include <vector>

#include "devices/base/text.h"

namespace leat {

ClusterJob& JobIndex::add(std::unique_ptr<ClusterJob> job) {
  // The keys are copied into the maps, so the job may move into its own one last.
  const StoredJob& stored = job->stored();
  ids_[stored.id] = stored.number;
  requests_[request_key(stored.terms.user, stored.request_id)] = stored.number;
  return *(jobs_[stored.number] = std::move(job));
}

void JobIndex::erase(const ClusterJob& job, bool forgotten) {
  const StoredJob& stored = job.stored();
  // The job is destroyed in the last line; `stored` is a part of it and must not be used after
  // that.
  if (forgotten) forgotten_.insert(stored.id);
  ids_.erase(stored.id);
  requests_.erase(request_key(stored.terms.user, stored.request_id));
  jobs_.erase(stored.number);
}

ClusterJob* JobIndex::find(uint64_t number) const {
  const auto found = jobs_.find(number);
  return found == jobs_.end() ? nullptr : found->second.get();
}

ClusterJob* JobIndex::find(std::string_view id) const {
  const auto found = ids_.find(id);
  return found == ids_.end() ? nullptr : find(found->second);
}

ClusterJob* JobIndex::of_request(std::string_view user, std::string_view request_id) const {
  const auto found = requests_.find(request_key(user, request_id));
  return found == requests_.end() ? nullptr : find(found->second);
}

// A job is invisible while its submit is being written: a user must not see a job that a full disk
// may still refuse.
Result<ClusterJob*> JobIndex::look_up(std::string_view prefix) const {
  const auto is_visible = [](const ClusterJob& job) {
    return job.writes() != ClusterJob::Write::submit;
  };
  // A whole id wins although it may also be the prefix of a longer one.
  ClusterJob* exact = find(prefix);
  if (exact != nullptr && is_visible(*exact)) return exact;
  std::vector<ClusterJob*> matches;
  // Ids are sorted, so all that begin with the prefix follow each other. The empty prefix matches
  // nothing, because it would match every job.
  for (auto at = ids_.lower_bound(prefix); at != ids_.end() && !prefix.empty(); ++at) {
    if (!at->first.starts_with(prefix)) break;
    if (ClusterJob* job = find(at->second); is_visible(*job)) matches.push_back(job);
  }
  if (matches.size() == 1) return matches.front();
  if (matches.empty()) return failed_precondition(cat("there is no job '", prefix, "'"));
  std::vector<std::string> ids;
  for (const ClusterJob* job : matches) ids.push_back(job->stored().id);
  // A short prefix may match thousands of jobs; the message names five.
  if (ids.size() > 5) ids.resize(5), ids.push_back("...");
  return invalid_argument(cat("'", prefix, "' begins the ids of ", matches.size(),
                              " jobs, expected one: ", join(ids, ", ")));
}

}  // namespace leat
