// The master as one object: it holds the cluster's state, the journal, the workers and runners that
// are connected, and the jobs that run; and does what people ask of it.
//
//   people ── ClientService ─┐                        ┌── JournalThread   "journal"
//                            ├── ClusterState "jobs" ─┼── RunningJobs         "job ID", one each
//   workers ─┬─ Workforce ───┘                        └── Workforce       "rpc"
//            └─ HeartServer    "rpc", of its own
//
// Nobody waits for anybody: what one has for another goes into the other's queue.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "daemon/jobs/journal.h"
#include "daemon/master/cluster_state.h"
#include "daemon/master/job_service.h"
#include "daemon/process/daemon_config.h"
#include "daemon/spec/chaos_fault.h"
#include "daemon/status/status_source.h"
#include "devices/base/clock.h"
#include "devices/base/log.h"
#include "ops/graph/op.h"
#include "transport/rpc/loop.h"

namespace leat {

class ClientService;
class HostGroup;
class HeartServer;
class JobLogs;
class RunningJobs;
class JournalThread;
class Leftovers;
class RpcServer;
class SessionHosts;
class Workforce;

// What no config says.
struct MasterTuning {
  ClusterStateOptions cluster;
  JournalLimits journal;
  uint64_t log_bytes = 64u << 20;  // of a job's log
  size_t checks = 64;              // submits that wait to be checked
  // For a worker to tell how a runner ended whose connection is gone.
  std::chrono::milliseconds runner_exit{2'000};
  std::chrono::milliseconds settle{1'000};    // for what was asked to be answered when it stops
  std::chrono::milliseconds farewell{3'000};  // for jobs to leave a checkpoint when it stops
  std::chrono::milliseconds end{10'000};      // and then for their threads to end
  std::chrono::milliseconds session_lease{30'000};
  // How often what crashes and clients left is looked for; how long after a job's end its runners
  // may write yet; and for how long a blob may be named by no job, since that may be on its way.
  std::chrono::milliseconds sweep{10'000}, sweep_after{10'000};
  std::chrono::seconds blob_age{3'600};
};

// Threads: any.
class Master final : public JobService, public StatusSource, private ClusterHands {
 public:
  // Takes the state directory, restores the jobs, and listens.
  static Result<std::unique_ptr<Master>> start(const MasterConfig& config,
                                               const MasterTuning& tuning, Logger log);
  // As stop().
  ~Master() override;

  // Hangs up on everybody, ends the runs of jobs and closes the journal. The states of jobs stay as
  // the journal has them. deadline_exceeded, naming them, if runs did not end.
  Status stop();

  // "127.0.0.1:17461"
  const std::string& address() const { return address_; }
  // What cluster() says of the status endpoint.
  void set_http_address(const std::string& address);

  // What it is doing, for people: a line each of jobs that go on and of workers.
  std::string dump() const;
  // For watchdogs: `beat` runs on each of the master's loops, when its turn comes.
  void beat_rpc(std::function<void()> beat);
  void beat_hearts(std::function<void()> beat);
  void beat_jobs(std::function<void()> beat);
  void beat_journal(std::function<void()> beat);

  void submit(Submission submission, Done<JobView> done) override;
  void resume(std::string job, Submission submission, Done<JobView> done) override;
  Result<std::unique_ptr<ArrivingBlob>> begin_blob(const Sha256Digest& sha256,
                                                   uint64_t size) override;
  void cancel(std::string id, std::string by, Done<JobView> done) override;
  void remove(std::string id, std::string by, Done<JobView> done) override;
  void drain(std::string worker, bool draining, std::string by, Done<NodeView> done) override;
  void watch(std::string id, uint64_t seen, std::chrono::steady_clock::time_point deadline,
             Done<JobView> done) override;
  void logs(std::string id, uint64_t from, std::chrono::steady_clock::time_point deadline,
            Done<LogPage> done) override;
  Result<std::vector<JobFile>> files(const std::string& id) override;
  Result<std::string> file_path(const std::string& id, const std::string& name) override;

  ClusterView cluster() const override;
  std::vector<JobView> jobs() const override;
  Result<JobView> job(std::string_view id) const override;
  std::vector<NodeView> nodes() const override;
  Result<LogPage> log(std::string_view id, uint64_t from, size_t most) const override;
  Status ready() const override;
  std::vector<Metric> metrics() const override;

 private:
  Master(const MasterConfig& config, const MasterTuning& tuning, Logger log);
  Status open();
  Status listen();
  std::string cpu_of(const RunJob& action) const;
  Result<std::unique_ptr<HostGroup>> make_hosts(const RunJob& action);
  Status arm(const RunJob& action, const std::vector<ArmedFault>& faults);
  Status admit(const Submission& submission) const;
  Status journal_status() const;
  void check(Submission submission, Done<JobView> done);
  void resume_checked(const std::string& job, Submission submission, Done<JobView> done);
  Result<std::string> job_of_request(const std::string& request_id);
  void sweep();
  void weigh(const std::string& job);
  Status clear(const std::string& job) const;
  void clear_forgotten(Journal& journal, const std::vector<StoredJob>& jobs);
  std::string jobs_folder() const;
  std::string checks_folder() const;

  void write(WriteJournal action) override;
  void start_runners(StartRunners action) override;
  void stop_runners(StopRunners action) override;
  void run_job(RunJob action) override;
  void yield_run(YieldRun action) override;
  void end_run(EndRun action) override;
  void remove_job(RemoveJob action) override;
  void worker_lost(const WorkerRef& worker, const std::string& reason) override;
  void members_changed(const std::vector<WorkerView>& workers) override;
  void job_changed(const JobView& job) override;

  const MasterConfig config_;
  const MasterTuning tuning_;
  const Logger log_;
  const RealClock clock_;
  const Catalogue catalogue_;
  int64_t started_ms_ = 0;
  std::string address_;
  mutable std::mutex mutex_;
  std::string http_address_;
  bool stopped_ = false;
  Status stop_status_;
  Status cannot_write_;              // the journal, when it was opened
  std::atomic<bool> wrote_ = false;  // since then
  std::atomic<uint64_t> checks_begun_{0};
  std::map<std::string, uint64_t> assemblies_;  // of jobs that go on, as their logs say; of "jobs"

  // Made in this order, ended in the other.
  std::unique_ptr<JournalThread> journal_;
  std::unique_ptr<JobLogs> logs_;
  std::unique_ptr<SessionHosts> sessions_;  // the loop has checks of it
  std::unique_ptr<RpcLoop> loop_;
  std::unique_ptr<Leftovers> leftovers_;
  Clock::Steady collect_blobs_at_{};  // the disk thread's
  std::unique_ptr<TaskThread> disk_;  // checks submits, removes folders and leftovers
  std::unique_ptr<ClusterState> state_;
  std::unique_ptr<HeartServer> hearts_;
  std::unique_ptr<Workforce> workforce_;
  std::unique_ptr<RunningJobs> runs_;
  std::unique_ptr<ClientService> clients_;
  std::unique_ptr<RpcServer> server_;
};

}  // namespace leat
