// The requests that people make of a master, over Cap'n Proto (wire_client_service.h) or HTTP:
// those that change something or wait. StatusSource has the requests that only read.
//
// Threads: any. No call blocks for longer than it takes to list files. A `Done` is called exactly
// once, on any thread, never under a lock, and must not block. Requests that still wait when the
// service is destroyed fail with `cancelled`.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "daemon/jobs/blobs.h"
#include "daemon/jobs/events.h"
#include "daemon/jobs/records.h"
#include "daemon/jobs/token_view.h"
#include "daemon/jobs/upload_account.h"
#include "daemon/status/status_source.h"
#include "daemon/traces/diagnosis.h"
#include "devices/base/sha256.h"
#include "devices/base/status.h"

namespace leat {

// A new token with its text.
struct TokenGiven {
  TokenView view;
  std::string text;  // never logged
};

// A file in the folder of a job.
struct JobFile {
  std::string name;  // relative to the job's folder
  uint64_t size = 0;
};

class JobService {
 public:
  template <typename T>
  using Done = std::function<void(Result<T>)>;

  virtual ~JobService() = default;

  // Answers when the job is in the journal. A repeated request returns the same job. The name and
  // the number of workers of `submission` are not read yet: they are in its job file.
  virtual void submit(Submission submission, Done<JobView> done) = 0;
  // As submit(), for a job that continues from the newest intact checkpoint of `job`, an id or a
  // unique prefix of one. The new job gets the files of that checkpoint; failed_precondition if
  // there is none. A repeated request continues from the checkpoint of the first one.
  virtual void resume(std::string job, Submission submission, Done<JobView> done) = 0;
  // Begins the upload of a file to which later submits refer. The file is kept once the upload is
  // finished. resource_exhausted if it would pass a quota. Blocks on the disk.
  virtual Result<std::unique_ptr<ArrivingBlob>> begin_blob(const BlobUpload& upload) = 0;
  // Here and below `id` may be a unique prefix of an id.
  virtual void cancel(std::string id, std::string by, Done<JobView> done) = 0;
  // Pauses the job, or resumes it with `undo`. Answers when the journal has that; a job that is so
  // already is no error. failed_precondition if it has ended, or is a session.
  virtual void pause(std::string id, bool undo, std::string by, Done<JobView> done) = 0;
  // Has the job write a checkpoint after its next step. Answers with the job as it is before that;
  // failed_precondition unless it trains.
  virtual void save(std::string id, std::string by, Done<JobView> done) = 0;
  // Forgets a job that has ended, and removes its files and its log. Answers with the last state of
  // the job, after the files are removed.
  virtual void remove(std::string id, std::string by, Done<JobView> done) = 0;
  // Answers when it is in the journal that workers of this name get no jobs, or get them again.
  virtual void drain(std::string worker, bool draining, std::string by, Done<NodeView> done) = 0;
  // Answers when the job's version is beyond `seen`, or at `deadline`, with the job as it is then.
  virtual void watch(std::string id, uint64_t seen, std::chrono::steady_clock::time_point deadline,
                     Done<JobView> done) = 0;
  // At most 256 KiB of lines from line `from` on; if there is none, and the job has not ended,
  // waits for one until `deadline`.
  virtual void logs(std::string id, uint64_t from, std::chrono::steady_clock::time_point deadline,
                    Done<LogPage> done) = 0;
  // Answers within 3 s with the reason why the job does not go on.
  virtual void why(std::string /*id*/, Done<Diagnosis> done) {
    done(unimplemented("why: not here"));
  }
  // Records the next steps of a job that trains, until `deadline`: see Master.record of
  // daemon/wire/cluster.capnp.
  virtual void record(std::string /*id*/, uint64_t /*steps*/,
                      std::chrono::steady_clock::time_point /*deadline*/,
                      Done<std::vector<std::byte>> done) {
    done(unimplemented("record: not here"));
  }
  // Makes a token of this right and name for so many seconds (0: without end), and calls `done`
  // with its text, which has its key; revokes one; returns all. Block on the disk.
  virtual void create_token(const Grant& /*wanted*/, uint64_t /*seconds*/, std::string /*by*/,
                            Done<TokenGiven> done) {
    done(unimplemented("tokens: not here"));
  }
  virtual void revoke_token(uint64_t /*number*/, std::string /*by*/, Done<TokenView> done) {
    done(unimplemented("tokens: not here"));
  }
  virtual Result<std::vector<TokenView>> tokens() { return unimplemented("tokens: not here"); }
  // Told of a request of `by` that was refused for lack of rights.
  virtual void refused(const std::string& /*by*/, const Status& /*why*/) {}
  // Told that `by` attaches to a lasting session. An error refuses it.
  virtual Status attaches(const std::string& /*job*/, const std::string& /*by*/) { return {}; }
  // Lists the files of the job by name, without those that are still being written.
  virtual Result<std::vector<JobFile>> files(const std::string& id) = 0;
  // Returns the path of such a file on this machine, for `by`, who asks for it; invalid_argument if
  // the job has no such file.
  virtual Result<std::string> file_path(const std::string& id, const std::string& name,
                                        const std::string& by) = 0;
};

}  // namespace leat
