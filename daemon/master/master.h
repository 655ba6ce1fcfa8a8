// The master as one object: it makes the parts of a master, connects them, and ends them.
//
// It has no thread of its own: master_parts.h shows the parts with theirs. A request goes to the
// part that owns what it changes, and that part answers.
#pragma once

#include <memory>
#include <string>

#include "daemon/master/job_looks.h"
#include "daemon/master/job_service.h"
#include "daemon/master/master_parts.h"
#include "daemon/master/master_status.h"
#include "daemon/master/submit_gate.h"
#include "daemon/master/table_hands.h"

namespace leat {

// Threads: any.
class Master final : public JobService {
 public:
  // Takes the state directory, restores the jobs, and listens. Errors: those of the directory, of
  // the keys in it, and of the address. A journal that cannot be written is none: the master shows
  // its jobs, and takes, begins and ends none.
  static Result<std::unique_ptr<Master>> start(const MasterConfig& config,
                                               const MasterTuning& tuning, Logger log);
  // Stops it, if that was not done.
  ~Master() override;

  // Closes all connections, ends the runs of jobs and closes the journal. The states of jobs stay
  // as the journal has them. deadline_exceeded, naming the jobs, if runs did not end.
  Status stop();

  // "127.0.0.1:17461"
  const std::string& address() const { return address_; }
  MasterStatus& status() { return status_; }
  // The requests of people, of which the audit log tells.
  AuditedJobs& audited() { return *parts_.audited; }

  // For watchdogs: `beat` runs on one of the master's loops as soon as that loop takes it.
  void beat_rpc(std::function<void()> beat);
  void beat_hearts(std::function<void()> beat);
  void beat_jobs(std::function<void()> beat);
  void beat_journal(std::function<void()> beat);

  // The requests of JobService, as they come from AuditedJobs.
  void submit(Submission submission, Done<JobView> done) override;
  void resume(std::string job, Submission submission, Done<JobView> done) override;
  Result<std::unique_ptr<ArrivingBlob>> begin_blob(const BlobUpload& upload) override;
  void cancel(std::string id, std::string by, Done<JobView> done) override;
  void pause(std::string id, bool undo, std::string by, Done<JobView> done) override;
  void save(std::string id, std::string by, Done<JobView> done) override;
  void remove(std::string id, std::string by, Done<JobView> done) override;
  void drain(std::string worker, bool draining, std::string by, Done<NodeView> done) override;
  void watch(std::string id, uint64_t seen, std::chrono::steady_clock::time_point deadline,
             Done<JobView> done) override;
  void logs(std::string id, uint64_t from, std::chrono::steady_clock::time_point deadline,
            Done<LogPage> done) override;
  void why(std::string id, Done<Diagnosis> done) override;
  void record(std::string id, uint64_t steps, std::chrono::steady_clock::time_point deadline,
              Done<std::vector<std::byte>> done) override;
  Result<std::vector<JobFile>> files(const std::string& id) override;
  Result<std::string> file_path(const std::string& id, const std::string& name,
                                const std::string& by) override;

 private:
  Master(const MasterConfig& config, const MasterTuning& tuning, Logger log);
  // The steps of start(), in this order. open() takes the directory and opens the journal, and
  // calls the three after it; listen() comes when all parts are there.
  Status open();
  void open_state();
  // `had`: as Journal::workers_of_jobs().
  Status open_workforce(std::vector<std::pair<std::string, std::string>> had);
  void open_runs();
  Status listen();
  // Removes leftovers, and blobs that no job names. Threads: the disk's.
  void sweep();

  MasterParts parts_;
  MasterStatus status_;
  SubmitGate gate_;
  TableHands hands_;
  JobLooks looks_{parts_};
  std::string address_;
  Clock::Steady collect_blobs_at_{};  // of the disk's thread
  bool stopped_ = false;
  Status stop_status_;
};

}  // namespace leat
