// What a daemon is to the table of jobs, with a journal in memory, a clock that stands still and
// workers of which nothing is real: writes succeed at once unless a test says otherwise.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "daemon/jobs/job_table.h"

namespace leat {

// Keeps what the records say, as replay() would give it back.
class MemoryJournal {
 public:
  void append(const JournalRecord& record);
  std::vector<StoredJob> replay() const;
  // Null if there is none.
  const StoredJob* find(const std::string& id) const;
  size_t size() const { return jobs_.size(); }

 private:
  std::map<std::string, StoredJob> jobs_;
};

Submission make_submission(const std::string& request_id, const std::string& name,
                           uint32_t num_workers, const std::string& text = "version: 1\n");

class TableDriver {
 public:
  // Without limits of its own it decides on failures at once.
  explicit TableDriver(const JobTableLimits& limits = {.other_side = {}});

  void send(JobEvent event);
  void run(JobActions actions);
  // Another master takes up the journal; nothing of the old one is left but what was written.
  void restart();
  void advance(std::chrono::milliseconds by) { clock.advance(by); }
  // Ticks once, `by` later.
  void tick(std::chrono::milliseconds by);

  void join(const std::string& worker, uint64_t incarnation = 1);
  void lose(const std::string& worker, uint64_t incarnation = 1);
  // Submits and gives the id.
  std::string submit(const std::string& name, uint32_t num_workers, uint32_t max_restarts = 3,
                     uint32_t min_workers = 0);
  // All runners of the job's assembly are there, or gone.
  void start_all(const std::string& id);
  void exit_all(const std::string& id);
  std::string state(const std::string& id) const;
  std::string reason(const std::string& id) const;
  // What was done since the last call, a line an action: "start a-0000 1 w1 w2*", where the runner
  // on w2 is kept.
  std::string done();
  // The answer to a ticket: "ok QUEUED", or the error; "" if there is none yet.
  std::string answer(uint64_t ticket) const;

  ManualClock clock;
  MemoryJournal journal;
  bool hold_writes = false;
  std::deque<WriteJournal> held;
  void release_writes();
  Status write_status;  // of the writes to come
  std::unique_ptr<JobTable> table;
  std::map<uint64_t, Result<JobView>> answers;

 private:
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
