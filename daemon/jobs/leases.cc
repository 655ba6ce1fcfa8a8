#include "daemon/jobs/leases.h"

#include <algorithm>

namespace leat {

bool has_dataset(std::span<const std::string> datasets, std::string_view wanted) {
  return std::any_of(datasets.begin(), datasets.end(), [&](const std::string& each) {
    // An empty `wanted` never reaches this line: JobDemand asks only for a job that names a data
    // set.
    return each == wanted || (each == "/" && wanted.starts_with('/'));
  });
}

// A new worker begins without a lease and without a drain: the membership reports a drain as an
// event of its own.
void Leases::add(const WorkerRef& worker, std::vector<std::string> datasets, uint32_t gpus) {
  workers_[worker.name] = {worker.incarnation, 0, false, std::move(datasets), gpus};
  count();
}

void Leases::remove(std::string_view name) {
  const auto found = workers_.find(name);
  if (found != workers_.end()) workers_.erase(found);
  count();
}

void Leases::set_draining(std::string_view name, bool draining) {
  const auto found = workers_.find(name);
  if (found != workers_.end()) found->second.draining = draining;
  count();
}

// An event may speak of a process that has ended since, so the incarnation must be equal, too.
bool Leases::has(const WorkerRef& worker) const {
  const uint64_t* incarnation = incarnation_of(worker.name);
  return incarnation != nullptr && *incarnation == worker.incarnation;
}

const uint64_t* Leases::incarnation_of(std::string_view name) const {
  const auto found = workers_.find(name);
  return found == workers_.end() ? nullptr : &found->second.incarnation;
}

bool Leases::is_draining(std::string_view name) const {
  const auto found = workers_.find(name);
  return found != workers_.end() && found->second.draining;
}

uint64_t Leases::job_of(std::string_view name) const {
  const auto found = workers_.find(name);
  return found == workers_.end() ? 0 : found->second.job;
}

// A worker that drains keeps its lease, but it is not free even without one.
bool Leases::is_free(const std::string& name, const Entry& entry,
                     std::span<const std::string> but) const {
  return entry.job == 0 && !entry.draining && std::find(but.begin(), but.end(), name) == but.end();
}

size_t Leases::free_but(std::span<const std::string> names) const {
  return static_cast<size_t>(std::count_if(workers_.begin(), workers_.end(), [&](const auto& each) {
    return is_free(each.first, each.second, names);
  }));
}

// Leased workers count, because their lease ends at some time. A draining worker does not.
size_t Leases::usable_but(std::span<const std::string> names) const {
  return static_cast<size_t>(std::count_if(workers_.begin(), workers_.end(), [&](const auto& each) {
    return !each.second.draining &&
           std::find(names.begin(), names.end(), each.first) == names.end();
  }));
}

std::vector<std::string> Leases::without(std::string_view dataset) const {
  std::vector<std::string> names;
  for (const auto& [name, entry] : workers_) {
    if (!has_dataset(entry.datasets, dataset)) names.push_back(name);
  }
  return names;
}

std::vector<std::string> Leases::with_fewer_gpus(uint32_t than) const {
  std::vector<std::string> names;
  for (const auto& [name, entry] : workers_) {
    if (entry.gpus < than) names.push_back(name);
  }
  return names;
}

std::vector<std::string> Leases::draining() const {
  std::vector<std::string> names;
  for (const auto& [name, entry] : workers_) {
    if (entry.draining) names.push_back(name);
  }
  return names;
}

std::vector<WorkerRef> Leases::take(size_t count, uint64_t job,
                                    std::span<const std::string> preferred,
                                    std::span<const std::string> but) {
  std::vector<WorkerRef> taken;
  // The first pass takes the preferred workers, the second those without GPUs, which are no loss
  // for other jobs, and the third any other. A job that wants GPUs has ruled out those of the
  // second one. The map is in the order of names, so the result does not depend on the order in
  // which the workers joined.
  enum class Pass { preferred, without_gpus, any };
  for (const Pass pass : {Pass::preferred, Pass::without_gpus, Pass::any}) {
    for (auto& [name, entry] : workers_) {
      if (taken.size() == count) break;
      if (!is_free(name, entry, but)) continue;
      if (pass == Pass::without_gpus && entry.gpus > 0) continue;
      if (pass == Pass::preferred &&
          std::find(preferred.begin(), preferred.end(), name) == preferred.end())
        continue;
      entry.job = job;
      taken.push_back({name, entry.incarnation});
    }
  }
  // Each pass leaves an ascending run; the tasks of new workers follow the names.
  std::sort(taken.begin(), taken.end());
  this->count();
  return taken;
}

// A draining worker may be claimed: the runner that it still holds must have a lease.
bool Leases::claim(const WorkerRef& worker, uint64_t job) {
  if (!has(worker)) return false;
  Entry& entry = workers_.find(worker.name)->second;
  if (entry.job != 0) return false;
  entry.job = job;
  count();
  return true;
}

void Leases::release(const WorkerRef& worker, uint64_t job) {
  if (!has(worker)) return;
  Entry& entry = workers_.find(worker.name)->second;
  // The worker may have been leased to another job since.
  if (entry.job == job) entry.job = 0;
  count();
}

// Called after every change, so that free() and usable() cost nothing: the table asks them for each
// job of the queue.
void Leases::count() {
  free_ = usable_ = 0;
  for (const auto& [name, entry] : workers_) {
    if (entry.draining) continue;
    ++usable_;
    if (entry.job == 0) ++free_;
  }
}

}  // namespace leat
