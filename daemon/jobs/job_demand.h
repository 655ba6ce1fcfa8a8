// Which workers a job needs for its next assembly, which of those there are it can use, and which
// it passes over for a while.
//
// A worker that lacks the job's data set, or a GPU that it wants, is unfit: it never counts. A
// worker that was the reason why an assembly ended (a lost link, an input that does not answer) is
// left out. It may come back at once if no other worker is free; after a second time within ten
// minutes it gets nothing of this job for half a second, and twice as long each time that follows.
//
// Threads: one.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "daemon/jobs/assembly.h"
#include "daemon/jobs/table_context.h"

namespace leat {

class JobDemand {
 public:
  // All of them outlive this.
  JobDemand(const TableContext& context, const StoredJob& job, const Assembly& assembly)
      : context_(context), job_(job), assembly_(assembly) {}

  // The job does not run with fewer workers.
  size_t least() const { return job_.min_workers > 0 ? job_.min_workers : job_.num_workers; }
  // Workers that the job has to get for its next assembly, besides those that are kept.
  size_t wanted() const;
  // Workers that it could get, now or when other jobs are done with them.
  size_t usable() const;
  // Free workers that are fit: their number, and their names in order.
  size_t free() const { return context_.leases.free_but(unfit(), job_.number, share()); }
  std::vector<std::string> free_names() const {
    return context_.leases.free_names_but(unfit(), job_.number, share());
  }
  // The share that it leases of each worker.
  WorkerShare share() const { return {static_cast<uint32_t>(job_.terms.cpu), job_.terms.memory}; }
  // free() without the workers of these names.
  size_t free_but(const std::vector<std::string>& names) const;
  // The names of the workers that it could use, leased or not, in order.
  std::vector<std::string> fit() const { return context_.leases.names_but(unfit()); }

  void leave_out(const std::string& worker, bool for_its_own);
  // Some worker gets nothing of this job now.
  bool leaves_out_now() const;
  bool leaves_out_any() const { return !left_out_.empty(); }
  // Unfit workers, then those that are left out. `some_kept`: part of the job is in the memory of
  // other workers. `all`: also those that may come back if no other worker is free.
  std::vector<std::string> left_out(bool some_kept, bool all = false) const;

  // "waits for 2 workers with data set 'x', 1 there; 'w3' lacks it", for people.
  std::string text(bool some_kept) const;

 private:
  struct LeftOut {
    Clock::Steady until{};
    Clock::Steady::duration time{};
    bool for_its_own = false;  // its own input failed, and not a link between it and others
  };
  std::vector<std::string> unfit() const;
  // " with data set 'x' and a GPU": what the job wants of a worker.
  std::string wanted_text() const;
  // "; 'w3' lacks it; 'w4' is drained": why workers that are there cannot be used.
  std::string unusable_text() const;
  // "; 'a' is before it", or "; 'b', which runs until 12:40 at most, has 2": what would change it.
  std::string queue_text() const;

  const TableContext& context_;
  const StoredJob& job_;
  const Assembly& assembly_;
  std::map<std::string, LeftOut> left_out_;  // by worker
};

}  // namespace leat
