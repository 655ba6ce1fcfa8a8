// The hands of the table of jobs: they do what it decides, with the other parts of the master.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "daemon/master/master_parts.h"

namespace leat {

// Threads: ClusterHands says which; restore() before the state is started.
class TableHands final : public ClusterHands {
 public:
  // `parts` outlives it. Its calls need all parts but the clients and the server.
  explicit TableHands(MasterParts& parts) : parts_(parts) {}

  // The jobs that the journal holds, when the master starts.
  void restore(const std::vector<StoredJob>& jobs);

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

  // Counts the bytes of the job's files, if the configuration limits them, and tells the table.
  void weigh(const std::string& job);
  // From now on it waits for no run. Threads: any.
  void stop() { stopping_ = true; }

 private:
  // Has the post-mortem of a job that has failed written, once its run has ended; for other jobs
  // forgets what was noted for one.
  void after_run(const std::string& id, bool failed);
  // Writes the post-mortem, unless the job was removed. On the disk's thread.
  void explain_failure(const std::string& id, const Submission& submission);

  MasterParts& parts_;
  std::atomic<bool> stopping_{false};
  std::map<std::string, uint64_t> assemblies_;  // of jobs that go on, as their logs have them
};

}  // namespace leat
