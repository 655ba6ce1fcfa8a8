// The simulated master. It has the real table of jobs, the real membership and the real checkpoint
// store. Events model what master_daemon does around them with threads and connections. Its journal
// and the folder of its jobs are on disks that outlive it.
//
// Threads: one.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "daemon/checkpoint/job_checkpoints.h"
#include "daemon/jobs/job_table.h"
#include "daemon/jobs/membership.h"
#include "tests/daemon/checkpoint/crash_files.h"
#include "tests/daemon/jobs/table_driver.h"
#include "tests/daemon/sim/cluster.h"
#include "tests/daemon/sim/sim_disk.h"
#include "tests/daemon/sim/sim_journal.h"

namespace leat::sim {

// One master over all of its lives. The cluster owns it.
class SimMaster {
 public:
  using Done = std::function<void(const Result<JobView>&)>;

  explicit SimMaster(Cluster& cluster);
  ~SimMaster();

  void boot();
  // Kills the process. If the machine `loses_power`, unsynced bytes may be lost, too.
  void kill(bool loses_power);

  // The calls of clients, workers and runners, on the master's side of their connections.
  void submit(const Submission& submission, Done done);
  void cancel(const std::string& id, Done done);
  // Pauses the job, or resumes it with `undo`.
  void pause(const std::string& id, bool undo, Done done);
  void drain(const std::string& worker, bool draining);
  void worker_connects(SimWorker* worker, const WorkerRef& ref, const std::vector<HeldRunner>& held,
                       EndPtr end);
  Status heard(const Heartbeat& heartbeat);
  void runner_connects(SimRunner& runner, EndPtr end);
  void runner_exited(const WorkerRef& worker, const std::string& job, uint64_t assembly,
                     const std::string& how);
  void reported(const std::string& job, uint64_t assembly, uint64_t task, uint64_t step);
  void link_failed(const LinkFailed& event);
  void run_failed(const std::string& job, uint64_t assembly, const std::string& how);

  // Damages a checkpoint of a job that has another one. False if there is no such job.
  bool flip_bit(const std::string& job);

  // The problems that are left at the end, and the jobs that are not over yet; "" if there are
  // none.
  std::string leftovers() const;
  std::vector<JobView> jobs() const;
  const MemoryJournal& journal() const { return journal_; }
  bool journal_is_broken() const { return journal_broken_; }

  Process process;
  DiskHealth health;
  uint64_t checkpoints = 0, resumed = 0, refused = 0, kept = 0, from_memory = 0, taken_up = 0;
  uint64_t yields = 0, saved_yields = 0, resized = 0, paused = 0, made_way = 0;

 private:
  struct Run;
  struct Slot {
    SimWorker* worker = nullptr;
    WorkerRef ref;
    SimRunner* runner = nullptr;
    EndPtr end;
    uint64_t from = 0;  // the first assembly whose news counts
  };
  struct Connected {
    SimWorker* worker = nullptr;
    EndPtr end;
  };
  using Assembly = std::pair<std::string, uint64_t>;

  // The state of one life of the master.
  struct Life {
    std::unique_ptr<JobTable> table;
    std::unique_ptr<Membership> members;
    std::map<WorkerRef, Connected> workers;
    std::map<Assembly, std::map<uint64_t, Slot>> slots;  // by task
    std::map<std::string, std::shared_ptr<Run>> runs;    // the newest run of each job
    std::map<uint64_t, Done> tickets;
    uint64_t last_ticket = 0;
    std::vector<WriteJournal> writes;
    bool writing = false;
  };

  void handle(JobEvent event);
  void apply(const Membership::Events& events);
  void run(const JobActions& actions);
  void perform(const WriteJournal& action);
  void perform(const StartRunners& action);
  void perform(const StopRunners& action);
  void perform(const RunJob& action);
  void perform(const YieldRun& action);
  void perform(const EndRun& action);
  void perform(const ExpelWorker& action);
  void perform(const Answer& action);
  void perform(const RemoveJob& action);
  void write_pending();
  void written(std::vector<WriteJournal> batch);
  bool open_journal();
  Status append_to_real(const std::vector<JournalRecord>& records);
  void append(const JournalRecord& record);
  void tick();
  void worker_lost(const WorkerRef& worker, const std::string& reason);
  void stop(const WorkerRef& worker, const std::string& job, uint64_t assembly, Ms grace,
            const std::string& how);
  void keep_runner(const StartRunners& action, uint64_t task);
  void check_views();

  // The run of one assembly, in sim_run.cc.
  std::string folder(const std::string& job) const { return "jobs/" + job + "/checkpoints"; }
  void begin(const std::shared_ptr<Run>& run);
  void ask_held(const std::shared_ptr<Run>& run);
  void choose(const std::shared_ptr<Run>& run);
  Result<std::pair<uint64_t, Weights>> resume(Run& run);
  void load(const std::shared_ptr<Run>& run, uint64_t step, const Weights& weights);
  void connect(const std::shared_ptr<Run>& run);
  void extend(const std::shared_ptr<Run>& run);
  void hold(const std::shared_ptr<Run>& run);
  void yielded(Run& run, bool saved);
  void fence(const std::shared_ptr<Run>& run);
  void checkpoint(const std::shared_ptr<Run>& run, const Weights& weights);
  Status write_checkpoint(Run& run, uint64_t step, const Weights& weights);
  void broke(Run& run, const Status& cause);
  // Asks all runners of a run. `ask` runs at each runner and calls its reply there; `then` runs
  // here once all have replied with success.
  using Ask = std::function<void(SimRunner&, std::function<void(const Status&)>)>;
  void ask_all(const std::shared_ptr<Run>& run, const char* what, Ask ask,
               std::function<void()> then);

  Cluster& cluster_;
  World& world_;
  std::unique_ptr<Life> life_;
  MemoryJournal journal_;                   // the content of the disk
  std::unique_ptr<SimJournal> real_;        // in some histories; must hold the same
  std::vector<WriteJournal> in_the_air_;    // the batch that is being written
  std::vector<JournalRecord> maybe_there_;  // a batch that only the real journal may have
  bool journal_broken_ = false;
  uint64_t generation_ = 0;
  std::unique_ptr<CrashFiles> files_;
  std::unique_ptr<SimDisk> disk_;
  std::map<std::string, JobCondition> ended_;  // as first seen
};

}  // namespace leat::sim
