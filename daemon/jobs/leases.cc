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
void Leases::add(const WorkerRef& worker, std::vector<std::string> datasets, uint32_t gpus,
                 WorkerShare offers) {
  workers_[worker.name] = {.incarnation = worker.incarnation,
                           .datasets = std::move(datasets),
                           .gpus = gpus,
                           .offers = offers};
  count();
}

// A share of less than nothing of the memory is not possible: the sums below cannot overflow, since
// each lease was checked against what is left.
bool Leases::Entry::has_room(uint64_t job, const WorkerShare& share) const {
  if (share.is_whole()) return leases.empty();
  if (leases.contains(job)) return false;
  uint64_t cores = offers.cores, memory = offers.memory;
  for (const auto& [holder, lease] : leases) {
    if (lease.is_whole()) return false;
    cores -= std::min<uint64_t>(cores, lease.cores);
    memory -= std::min(memory, lease.memory);
  }
  return share.cores <= cores && share.memory <= memory;
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

std::vector<uint64_t> Leases::jobs_of(std::string_view name) const {
  std::vector<uint64_t> jobs;
  const auto found = workers_.find(name);
  if (found == workers_.end()) return jobs;
  for (const auto& [job, share] : found->second.leases) jobs.push_back(job);
  return jobs;
}

bool Leases::has_room(std::string_view name, uint64_t job, const WorkerShare& share) const {
  const auto found = workers_.find(name);
  return found != workers_.end() && found->second.has_room(job, share);
}

// A worker that drains keeps its lease, but it is not free even without one.
bool Leases::is_free(const std::string& name, const Entry& entry, std::span<const std::string> but,
                     uint64_t job, const WorkerShare& share) const {
  return !entry.draining && entry.has_room(job, share) &&
         std::find(but.begin(), but.end(), name) == but.end();
}

size_t Leases::free_but(std::span<const std::string> names, uint64_t job,
                        const WorkerShare& share) const {
  return static_cast<size_t>(std::count_if(workers_.begin(), workers_.end(), [&](const auto& each) {
    return is_free(each.first, each.second, names, job, share);
  }));
}

std::vector<std::string> Leases::free_names_but(std::span<const std::string> names, uint64_t job,
                                                const WorkerShare& share) const {
  std::vector<std::string> free;
  for (const auto& [name, entry] : workers_) {
    if (is_free(name, entry, names, job, share)) free.push_back(name);
  }
  return free;
}

std::vector<std::string> Leases::without_share(const WorkerShare& share) const {
  std::vector<std::string> names;
  for (const auto& [name, entry] : workers_) {
    if (entry.offers.cores < share.cores || entry.offers.memory < share.memory)
      names.push_back(name);
  }
  return names;
}

// Leased workers count, because their lease ends at some time. A draining worker does not.
size_t Leases::usable_but(std::span<const std::string> names) const {
  return static_cast<size_t>(std::count_if(workers_.begin(), workers_.end(), [&](const auto& each) {
    return !each.second.draining &&
           std::find(names.begin(), names.end(), each.first) == names.end();
  }));
}

std::vector<std::string> Leases::names_but(std::span<const std::string> names) const {
  std::vector<std::string> all;
  for (const auto& [name, entry] : workers_) {
    if (!entry.draining && std::find(names.begin(), names.end(), name) == names.end())
      all.push_back(name);
  }
  return all;
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
                                    std::span<const std::string> but, const WorkerShare& share) {
  std::vector<WorkerRef> taken;
  // The first pass takes the preferred workers, the second those that jobs share, so that others
  // stay whole, the third those without GPUs, which are no loss for other jobs, and the last any
  // other. A job that wants GPUs has ruled out those of the third one. The map is in the order of
  // names, so the result does not depend on the order in which the workers joined.
  enum class Pass { preferred, shared, without_gpus, any };
  for (const Pass pass : {Pass::preferred, Pass::shared, Pass::without_gpus, Pass::any}) {
    for (auto& [name, entry] : workers_) {
      if (taken.size() == count) break;
      if (!is_free(name, entry, but, job, share)) continue;
      if (pass == Pass::shared && entry.leases.empty()) continue;
      if (pass == Pass::without_gpus && entry.gpus > 0) continue;
      if (pass == Pass::preferred &&
          std::find(preferred.begin(), preferred.end(), name) == preferred.end())
        continue;
      entry.leases[job] = share;
      taken.push_back({name, entry.incarnation});
    }
  }
  // Each pass leaves an ascending run; the tasks of new workers follow the names.
  std::sort(taken.begin(), taken.end());
  this->count();
  return taken;
}

// A draining worker may be claimed: the runner that it still holds must have a lease.
bool Leases::claim(const WorkerRef& worker, uint64_t job, const WorkerShare& share) {
  if (!has(worker)) return false;
  Entry& entry = workers_.find(worker.name)->second;
  if (!entry.has_room(job, share)) return false;
  entry.leases[job] = share;
  count();
  return true;
}

void Leases::release(const WorkerRef& worker, uint64_t job) {
  if (!has(worker)) return;
  Entry& entry = workers_.find(worker.name)->second;
  // The worker may have been leased to another job since.
  entry.leases.erase(job);
  count();
}

// Called after every change, so that free() costs nothing: the table asks it at every tick.
void Leases::count() {
  free_ = static_cast<size_t>(std::count_if(workers_.begin(), workers_.end(), [](const auto& each) {
    return !each.second.draining && each.second.leases.empty();
  }));
}

}  // namespace leat
