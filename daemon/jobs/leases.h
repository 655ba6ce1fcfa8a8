// The leases of workers by jobs. A job leases whole workers, or a share of each: some of its cores
// and of its memory. A worker serves one job that has the whole of it, or several jobs whose shares
// fit into it.
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

// The part of a worker that a job leases, or that a worker offers. Without cores it is the whole
// worker; a share without memory may use any.
struct WorkerShare {
  uint32_t cores = 0;
  uint64_t memory = 0;  // bytes
  bool is_whole() const { return cores == 0; }
  bool operator==(const WorkerShare&) const = default;
};

// Of the names and paths of data sets that a worker has: "/" is every absolute path.
bool has_dataset(std::span<const std::string> datasets, std::string_view wanted);

class Leases {
 public:
  // `offers`: what jobs may share; without cores, jobs lease the whole worker only. REQUIRES: there
  // is no worker of that name.
  void add(const WorkerRef& worker, std::vector<std::string> datasets = {}, uint32_t gpus = 0,
           WorkerShare offers = {});
  // Its leases end, too.
  void remove(std::string_view name);
  // A draining worker keeps its lease and gets no new one.
  void set_draining(std::string_view name, bool draining);

  bool has(const WorkerRef& worker) const;
  // The incarnation of that name; null if there is none.
  const uint64_t* incarnation_of(std::string_view name) const;
  bool is_draining(std::string_view name) const;
  // The numbers of the jobs that lease the worker, ascending; none if there is no such worker.
  std::vector<uint64_t> jobs_of(std::string_view name) const;
  // True if the worker is there, the job does not lease it, and such a lease fits beside those that
  // it has.
  bool has_room(std::string_view name, uint64_t job, const WorkerShare& share = {}) const;
  // The number of workers without a lease that may get one.
  size_t free() const { return free_; }
  // The number of workers, but these, that may get a lease now, or when their present ones end.
  size_t usable_but(std::span<const std::string> names) const;
  // Their names.
  std::vector<std::string> names_but(std::span<const std::string> names) const;
  // The workers that have no data set of that name, those with fewer GPUs, and those that get no
  // leases, by name.
  std::vector<std::string> without(std::string_view dataset) const;
  std::vector<std::string> with_fewer_gpus(uint32_t than) const;
  // The workers that offer less than that share, by name.
  std::vector<std::string> without_share(const WorkerShare& share) const;
  std::vector<std::string> draining() const;
  // The workers that may get such a lease of the job now, and that are not among these: their
  // number, and their names in order. A worker that the job leases already is none of them.
  size_t free_but(std::span<const std::string> names, uint64_t job,
                  const WorkerShare& share = {}) const;
  std::vector<std::string> free_names_but(std::span<const std::string> names, uint64_t job,
                                          const WorkerShare& share = {}) const;

  // Leases a share of each of `count` workers with room for it, none of `but`: first those named in
  // `preferred`, then those that jobs share already, then those without GPUs, and by name.
  // REQUIRES: count <= free_but(but, job, share).
  std::vector<WorkerRef> take(size_t count, uint64_t job, std::span<const std::string> preferred,
                              std::span<const std::string> but = {}, const WorkerShare& share = {});
  // Leases the worker to the job. False if the worker is not there, has no room, or is leased to
  // the job already.
  bool claim(const WorkerRef& worker, uint64_t job, const WorkerShare& share = {});
  // Does nothing unless the job leases that worker.
  void release(const WorkerRef& worker, uint64_t job);

 private:
  struct Entry {
    uint64_t incarnation = 0;
    std::map<uint64_t, WorkerShare> leases = {};  // by the number of the job
    bool draining = false;
    std::vector<std::string> datasets = {};
    uint32_t gpus = 0;
    WorkerShare offers = {};
    bool has_room(uint64_t job, const WorkerShare& share) const;
  };
  void count();
  bool is_free(const std::string& name, const Entry& entry, std::span<const std::string> but,
               uint64_t job, const WorkerShare& share) const;

  std::map<std::string, Entry, std::less<>> workers_;
  size_t free_ = 0;
};

}  // namespace leat
