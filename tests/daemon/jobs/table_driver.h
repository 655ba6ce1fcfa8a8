// Drives a table of jobs as a daemon does, with a journal in memory, a clock that stands still and
// imaginary workers. Writes succeed at once unless a test says otherwise.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "daemon/jobs/job_table.h"

namespace leat {

// Keeps the content of the records, as replay() would return it.
class MemoryJournal {
 public:
  void append(const JournalRecord& record);
  std::vector<StoredJob> replay() const;
  // Returns the job, or null.
  const StoredJob* find(const std::string& id) const;
  size_t size() const { return jobs_.size(); }

 private:
  std::map<std::string, StoredJob> jobs_;
};

Submission make_submission(const std::string& request_id, const std::string& name,
                           uint32_t num_workers, const std::string& text = "version: 1\n");

// Sends events to a table of jobs, and records its actions.
class TableDriver {
 public:
  // By default it decides on failures at once.
  explicit TableDriver(const JobTableLimits& limits = {.other_side = {}});

  void send(JobEvent event);
  void run(JobActions actions);
  // Starts another master with the journal. Unwritten state of the old one is lost.
  void restart();
  void advance(std::chrono::milliseconds by) { clock.advance(by); }
  // Advances the clock by `by`, and ticks once.
  void tick(std::chrono::milliseconds by);

  void join(const std::string& worker, uint64_t incarnation = 1);
  void lose(const std::string& worker, uint64_t incarnation = 1);
  // Submits a job and returns its id.
  std::string submit(const std::string& name, uint32_t num_workers, uint32_t max_restarts = 3,
                     uint32_t min_workers = 0);
  // Submits a job with these terms; its name is also that of its request.
  std::string submit(const std::string& name, uint32_t num_workers, const QueueTerms& terms,
                     uint32_t min_workers = 0);
  // Reports that all runners of the job's assembly have started, or have ended.
  void start_all(const std::string& id);
  void exit_all(const std::string& id);
  std::string state(const std::string& id) const;
  std::string reason(const std::string& id) const;
  // The id of the first job that leases the worker; "" if none does.
  std::string holder(const std::string& worker) const;
  // Returns the actions since the last call, one in each line: "start a-0000 1 w1 w2*", where the
  // runner on w2 is kept.
  std::string done();
  // Returns the answer to a ticket: "ok QUEUED", or the error; "" if there is none yet.
  std::string answer(uint64_t ticket) const;

  ManualClock clock;
  MemoryJournal journal;
  bool hold_writes = false;
  std::deque<WriteJournal> held;
  void release_writes();
  Status write_status;  // of the following writes
  std::unique_ptr<JobTable> table;
  std::map<uint64_t, Result<JobView>> answers;

 private:
  std::string submit(Submission submission);
  void perform(const JobAction& action);
  void note(const std::string& verb, const std::string& job, uint64_t assembly,
            const std::vector<WorkerRef>& workers, const std::vector<bool>& kept = {});

  const JobTableLimits limits_;
  uint64_t random_ = 0;
  uint64_t ticket_ = 1000;
  std::string log_;
  std::deque<JobEvent> events_;
  bool running_ = false;
};

}  // namespace leat
