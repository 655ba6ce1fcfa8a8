// The state that the jobs of one table share: its limits, the workers and their leases, the writes
// of the journal, and the event that is being handled. The table (job_table.h) owns it; each of its
// jobs (cluster_job.h) borrows it for life.
//
// Threads: one.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "daemon/jobs/events.h"
#include "daemon/jobs/leases.h"
#include "daemon/jobs/quotas.h"
#include "daemon/jobs/retention.h"

namespace leat {

// "'ann'", or "clients without a name".
std::string user_for_people(const std::string& user);

struct JobTableLimits {
  size_t max_unfinished = 10000;  // further submits are refused
  Quotas quotas = {};
  Retention retention = {};                        // of those that have ended
  std::chrono::milliseconds start_timeout{30000};  // for a runner to be there
  std::chrono::milliseconds stop_grace{1500};      // for a runner to end by itself
  std::chrono::milliseconds stop_timeout{5000};    // after that, for its end to be heard of
  std::chrono::milliseconds retry_after{1000};     // a failed write
  // A failure is seen from two sides: the end of a process or node, and the error of the run. After
  // the first of them the job waits so long for the other.
  std::chrono::milliseconds other_side{250};
  // A run that loses a runner or worker reports its error within this time.
  std::chrono::milliseconds run_tells{100};
  // While a worker of the job is silent, the job waits so long: the loss of that worker would say
  // more than the error of the run.
  std::chrono::milliseconds silence{3000};
  // Runners that a failure has left wait so long, with the job in memory, for workers in the place
  // of those that are gone.
  std::chrono::milliseconds keep_survivors{60000};
  // An assembly of an elastic job runs at least this long before it stops to take in more workers.
  // It does not stop for them if the job needs less time than this to finish.
  std::chrono::milliseconds grow_after{3000};
  // A run that has reached its job's max_run_time has so long to save a checkpoint.
  std::chrono::milliseconds last_save{60000};
  // A master that has started again waits so long for the runners that its jobs had: their workers
  // try to reach it every 2 s at most.
  std::chrono::milliseconds take_up{5000};
  // No new job gets one of these ids: there are folders of these names.
  std::set<std::string, std::less<>> taken_ids = {};
};

// The writes that the journal's thread has been asked for and has not answered, and the pause after
// one that failed.
class JournalWrites {
 public:
  // The number of a new write about that job.
  uint64_t add(uint64_t job) {
    in_the_air_[++last_] = job;
    return last_;
  }
  // The number of the job that the write was about; 0 if there was no such write.
  uint64_t end(const JournalWritten& event, Moment now, std::chrono::milliseconds retry_after);
  // True, once, when the pause is over.
  bool resume(Moment now);

  // No writes but submits: one has failed a short time ago.
  bool is_held() const { return held_until_.has_value(); }
  bool is_idle() const { return !is_held() && in_the_air_.empty(); }
  // The journal refuses what it was last asked to write. The setter returns true if that is news.
  bool refuses() const { return refuses_; }
  bool set_refuses(bool refuses) { return std::exchange(refuses_, refuses) != refuses; }
  // Why the last write failed; ok after one that did not.
  const Status& status() const { return status_; }

 private:
  std::map<uint64_t, uint64_t> in_the_air_;  // the job's number, by write
  uint64_t last_ = 0;
  Status status_;
  bool refuses_ = false;
  std::optional<Clock::Steady> held_until_;
};

struct TableContext {
  // The first job in the queue that has to wait for workers that others lease.
  struct Head {
    uint64_t number = 0;
    std::string id;
    std::optional<int64_t> by_ms;  // of Unix time: it starts by then, if no worker is lost
  };

  // A job that has workers, for the texts of those that wait for them.
  struct Holder {
    std::string id;
    std::optional<int64_t> until_ms;  // of Unix time: it has left them then
  };

  const JobTableLimits limits = {};
  Leases leases = {};
  std::set<std::string> silent = {};  // workers that have not been heard of for a while
  JournalWrites journal = {};
  std::set<uint64_t> assembled = {};    // numbers of the jobs that have runners, or wait for theirs
  std::set<uint64_t> backing_off = {};  // numbers of the jobs that have failed, and wait a while
  std::optional<Head> head = {};
  std::map<uint64_t, uint32_t> positions = {};  // in the queue, from 1, by number
  std::map<uint64_t, Holder> holders = {};      // by number
  // Why jobs wait that would pass the quota of their user's workers, by number.
  std::map<uint64_t, std::string> over_quota = {};
  bool queue_changed = false;  // workers are to be given out anew
  uint64_t version = 0;        // of the newest change of any view
  uint64_t queue_version = 0;  // of the last change of what waiting jobs wait for

  // Of the event that is being handled.
  Moment now = {};
  JobActions actions = {};

  void write(uint64_t job, JournalRecord record) {
    const uint64_t write = journal.add(job);
    actions.push_back(WriteJournal{write, std::move(record)});
  }
  void answer(uint64_t ticket, Result<JobView> view) {
    actions.push_back(Answer{ticket, std::move(view)});
  }
  void refuse(const FaultAsked& event, std::string_view why);
};

}  // namespace leat
