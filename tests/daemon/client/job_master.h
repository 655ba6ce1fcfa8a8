// A master without workers, for tests of clients: the real service behind a real server, with jobs
// whose state the test changes.
#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "daemon/master/job_service.h"
#include "daemon/status/status_source.h"
#include "tests/temporary_directory.h"

namespace leat {

// A source of jobs that the test controls. Threads: any.
class FakeJobs final : public JobService, public StatusSource {
 public:
  // Uploads go to `files`.
  explicit FakeJobs(std::string folder, Files& files = real_files());
  ~FakeJobs() override;

  void submit(Submission submission, Done<JobView> done) override;
  // Adds a file resume/JOB to the submission, so that a test can see it.
  void resume(std::string job, Submission submission, Done<JobView> done) override;
  Result<std::unique_ptr<ArrivingBlob>> begin_blob(const BlobUpload& upload) override;
  void cancel(std::string id, std::string by, Done<JobView> done) override;
  void pause(std::string id, bool undo, std::string by, Done<JobView> done) override;
  void save(std::string id, std::string by, Done<JobView> done) override;
  void remove(std::string id, std::string by, Done<JobView> done) override;
  // For the worker "w1". drained() returns the last request.
  void drain(std::string worker, bool draining, std::string by, Done<NodeView> done) override;
  void watch(std::string id, uint64_t seen, std::chrono::steady_clock::time_point deadline,
             Done<JobView> done) override;
  void logs(std::string id, uint64_t from, std::chrono::steady_clock::time_point deadline,
            Done<LogPage> done) override;
  Result<std::vector<JobFile>> files(const std::string& id) override;
  Result<std::string> file_path(const std::string& id, const std::string& name,
                                const std::string& by) override;

  ClusterView cluster() const override;
  uint64_t jobs_version() const override;
  std::vector<JobView> changed_jobs(uint64_t version) const override;
  std::vector<JobView> jobs() const override;
  Result<JobView> job(std::string_view id) const override;
  std::vector<NodeView> nodes() const override;
  Result<LogPage> log(std::string_view id, uint64_t from, size_t most) const override;
  Status ready() const override { return {}; }

  // Calls of the test -----------------------------------------------------------------------------

  // Adds a job that no client submitted, and returns its id: "NAME-" and four digits.
  std::string add(const std::string& name, JobState state = JobState::running);
  // Changes the view and raises its version.
  void change(const std::string& id, const std::function<void(JobView&)>& change);
  void say(const std::string& id, const std::string& worker, const std::string& text);
  // Writes a file of the job, and returns its path.
  std::string leave(const std::string& id, const std::string& name,
                    std::span<const std::byte> bytes);
  // Removes this file and its folder when a client asks for it.
  void vanishes(const std::string& name) {
    const std::lock_guard lock(mutex_);
    vanishing_ = name;
  }
  // Makes the master lie: `about_job` changes every view of a job, and lists of files have these in
  // addition.
  void lies(std::function<void(JobView&)> about_job, std::vector<std::string> files = {}) {
    const std::lock_guard lock(mutex_);
    lie_ = std::move(about_job);
    listed_ = std::move(files);
  }
  // Makes every page of a log begin this number of lines earlier.
  void repeats_lines(uint64_t lines) {
    const std::lock_guard lock(mutex_);
    lines_back_ = lines;
  }
  // Waits for the `count`th job and returns its id; submission() returns what the client sent.
  std::string await_job(size_t count = 1);
  Submission submission(const std::string& id) const;
  size_t blobs() const;         // counting uploads in progress
  std::string drained() const;  // "w1", "w1 --undo"
  // How often a known submission came again.
  int repeats() const;
  // Waits until a client waits for a job or its log.
  void await_watcher();
  // Answers the waiting clients that the master is stopping.
  void leave_waiting();

 private:
  struct Entry {
    JobView view;
    std::vector<LogLine> lines;
    Submission submission;
  };
  struct Waiting {
    std::string id;
    uint64_t from = 0;
    std::chrono::steady_clock::time_point deadline;
    Done<JobView> job;  // one of the two
    Done<LogPage> logs;
  };

  Result<const Entry*> find(std::string_view id) const;  // with the lock
  Result<JobView> known(std::string_view id) const;
  JobView told(JobView view) const;  // with the lock
  LogPage page_of(const Entry& entry, uint64_t from) const;
  // Answers all requests that are due. Called without the lock.
  void answer_waiting();
  void keep_time();

  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::vector<Entry> entries_;
  std::vector<Waiting> waiting_;
  int repeats_ = 0;
  std::string drained_, vanishing_;
  std::function<void(JobView&)> lie_;
  std::vector<std::string> listed_;
  uint64_t lines_back_ = 0;
  bool stopping_ = false;
  const std::string folder_;
  Blobs blobs_;
  std::thread clock_;
};

// The settings of a JobMaster.
struct JobMasterOptions {
  std::string secret = {};
  Files* files = &real_files();  // the files that uploads go to
  std::chrono::milliseconds upload_silence{60'000};
};

// A FakeJobs behind a port of loopback, which a test can stop and start again.
class JobMaster {
 public:
  explicit JobMaster(JobMasterOptions options = {});
  ~JobMaster();

  FakeJobs& jobs() { return jobs_; }
  const std::string& address() const { return address_; }
  void stop();
  // Starts it again at the same port.
  void start();

 private:
  struct Server;
  const TemporaryDirectory directory_;
  const JobMasterOptions options_;
  FakeJobs jobs_;
  std::string address_ = "127.0.0.1:0";
  std::unique_ptr<Server> server_;
};

}  // namespace leat
