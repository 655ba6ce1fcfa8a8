// The leases of workers by jobs. A job leases whole workers; a worker serves one job at most.
//
// Workers are ordered by name, never by a hash map, so equal histories lease equal workers.
// Threads: one.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <ostream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace leat {

// One life of a worker's process. Another process of that name is another worker.
struct WorkerRef {
  std::string name;
  uint64_t incarnation = 0;
  auto operator<=>(const WorkerRef&) const = default;
};

// Of the names and paths of data sets that a worker has: "/" is every absolute path.
bool has_dataset(std::span<const std::string> datasets, std::string_view wanted);

class Leases {
 public:
  // REQUIRES: there is no worker of that name.
  void add(const WorkerRef& worker, std::vector<std::string> datasets = {}, uint32_t gpus = 0);
  // Its lease ends, too.
  void remove(std::string_view name);
  // A draining worker keeps its lease and gets no new one.
  void set_draining(std::string_view name, bool draining);

  bool has(const WorkerRef& worker) const;
  // The incarnation of that name; null if there is none.
  const uint64_t* incarnation_of(std::string_view name) const;
  bool is_draining(std::string_view name) const;
  // The number of the job that leases the worker; 0 if there is none, or no such worker.
  uint64_t job_of(std::string_view name) const;
  // The workers that may get a lease now, or when their present lease ends.
  size_t free() const { return free_; }
  size_t usable() const { return usable_; }
  // Those of usable() that are not among these.
  size_t usable_but(std::span<const std::string> names) const;
  // The workers that have no data set of that name, those with fewer GPUs, and those that get no
  // leases, by name.
  std::vector<std::string> without(std::string_view dataset) const;
  std::vector<std::string> with_fewer_gpus(uint32_t than) const;
  std::vector<std::string> draining() const;
  // Those of free() that are not among these.
  size_t free_but(std::span<const std::string> names) const;

  // Leases `count` free workers, none of `but`: first those named in `preferred`, then those
  // without GPUs, and by name.
  // REQUIRES: count <= free_but(but).
  std::vector<WorkerRef> take(size_t count, uint64_t job, std::span<const std::string> preferred,
                              std::span<const std::string> but = {});
  // Leases the worker to the job. False if the worker is not free.
  bool claim(const WorkerRef& worker, uint64_t job);
  // Does nothing unless the job leases that worker.
  void release(const WorkerRef& worker, uint64_t job);

 private:
  struct Entry {
    uint64_t incarnation = 0;
    uint64_t job = 0;
    bool draining = false;
    std::vector<std::string> datasets;
    uint32_t gpus = 0;
  };
  void count();
  bool is_free(const std::string& name, const Entry& entry, std::span<const std::string> but) const;

  std::map<std::string, Entry, std::less<>> workers_;
  size_t free_ = 0;
  size_t usable_ = 0;
};

}  // namespace leat
