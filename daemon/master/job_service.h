// What the master does for people, whoever carries the question: Cap'n Proto (client_service.h) or
// HTTP. To look at things there is StatusSource; this is what changes or waits.
//
// Threads: any. Nothing blocks for longer than a file takes to be listed. A `Done` is called
// exactly once, on any thread, never under a lock, and must not block; when the service is
// destroyed, what is still waiting gets `cancelled`.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "daemon/jobs/blobs.h"
#include "daemon/jobs/events.h"
#include "daemon/jobs/records.h"
#include "daemon/status/status_source.h"
#include "devices/base/sha256.h"
#include "devices/base/status.h"

namespace leat {

// What a job has left.
struct JobFile {
  std::string name;  // relative to the job's folder
  uint64_t size = 0;
};

class JobService {
 public:
  template <typename T>
  using Done = std::function<void(Result<T>)>;

  virtual ~JobService() = default;

  // Answers when the job is in the journal. A repeated request is the same job.
  virtual void submit(Submission submission, Done<JobView> done) = 0;
  // The same for one that goes on from the newest whole checkpoint of `job`, an id or a prefix of
  // no other, which becomes files of it: failed_precondition if there is none. A repeated request
  // goes on from the checkpoint that it began with.
  virtual void resume(std::string job, Submission submission, Done<JobView> done) = 0;
  // For a file that is uploaded, for submits that name it: it is kept once it is finished. For a
  // thread that may wait for the disk.
  virtual Result<std::unique_ptr<ArrivingBlob>> begin_blob(const Sha256Digest& sha256,
                                                           uint64_t size) = 0;
  // Here and below `id` may be a prefix of no other.
  virtual void cancel(std::string id, std::string by, Done<JobView> done) = 0;
  // Forgets a job that has ended, with its files and its log. Answers, with what it was, when they
  // are gone.
  virtual void remove(std::string id, std::string by, Done<JobView> done) = 0;
  // Answers when it is in the journal that workers of this name get no jobs, or get them again.
  virtual void drain(std::string worker, bool draining, std::string by, Done<NodeView> done) = 0;
  // Answers when the job's version is beyond `seen`, or at `deadline` with what is then.
  virtual void watch(std::string id, uint64_t seen, std::chrono::steady_clock::time_point deadline,
                     Done<JobView> done) = 0;
  // At most 256 KiB of lines from line `from` on; if there is none, and the job has not ended,
  // waits for one until `deadline`.
  virtual void logs(std::string id, uint64_t from, std::chrono::steady_clock::time_point deadline,
                    Done<LogPage> done) = 0;
  // In order of their names; what is being written is not among them.
  virtual Result<std::vector<JobFile>> files(const std::string& id) = 0;
  // The path of one of them on this machine; invalid_argument for a name that is not among them.
  virtual Result<std::string> file_path(const std::string& id, const std::string& name) = 0;
};

}  // namespace leat
