// A cluster, as people and their programs use it: jobs submitted, watched, cancelled, and what they
// leave fetched. docs/cli.md has the commands over it.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "daemon/jobs/views.h"
#include "devices/base/files.h"
#include "devices/base/status.h"

namespace leat {

struct ClusterClientOptions {
  std::string address;  // of the master: "127.0.0.1:17461"
  std::string cluster = "leat";
  std::string secret;                                 // of the cluster; may be empty
  std::chrono::milliseconds connect_deadline{5'000};  // connection and hello together
  std::chrono::milliseconds deadline{10'000};         // of a call, beyond what it is asked to wait
  // For so long a call tries again when the connection is lost.
  std::chrono::milliseconds patience{30'000};
  bool await_master = false;  // connect() tries again for as long, too
  // Asked every 50 ms by calls that wait: true ends them with `cancelled`.
  std::function<bool()> stop;
  // A call is about to connect again; with what ended the connection, or kept it from being made.
  std::function<void(const Status& cause)> on_lost;
};

// A file for a job to take along.
struct JobAttachment {
  std::string name;  // as the job file has it: relative, no ".."
  std::string path;  // where it is
};

// A job on its way.
struct JobRequest {
  std::string request_id;  // new_request_id(), once for each job
  std::string text;        // the job file
  std::vector<std::string> overrides;
  std::vector<JobAttachment> files;
  std::vector<std::string> chaos = {};  // daemon/spec/chaos_fault.h
  // A job of the cluster from whose newest whole checkpoint it goes on; `files` has none then.
  std::string resume = {};
};

// 32 hexadecimal digits that nobody else has.
std::string new_request_id();

// What a job has left.
struct RemoteFile {
  std::string name;  // relative to the job's folder
  uint64_t size = 0;
};

// A connection to the master, which is made again when it is lost: then a call is repeated, with a
// growing pause in between, until it was answered or `patience` is over. All calls may be repeated
// safely.
//
// Errors: unavailable: the master cannot be reached, or no more. refused(): it is another
// cluster's, or does not accept the secret. Else those of daemon/wire/cluster.capnp.
//
// Threads: one at a time. It has a thread of its own, "rpc".
class ClusterClient {
 public:
  static Result<std::unique_ptr<ClusterClient>> connect(ClusterClientOptions options);
  ~ClusterClient();
  ClusterClient(const ClusterClient&) = delete;
  ClusterClient& operator=(const ClusterClient&) = delete;

  // Files past 512 KiB together are uploaded first, in pieces; at most 16 GiB of each. Each is read
  // twice: failed_precondition if it changes in between. When it is ok, the job is safe with the
  // master.
  Result<JobView> submit(const JobRequest& request);

  // Oldest first; the newest 1,000 if there are more.
  Result<std::vector<JobView>> jobs();
  // `id` here and below: or a prefix of no other. failed_precondition if there is none.
  Result<JobView> job(const std::string& id);
  // The job when its version is beyond `seen`, or as it is after `wait` (at most 30 s).
  Result<JobView> watch(const std::string& id, uint64_t seen, std::chrono::milliseconds wait);
  // failed_precondition if it has ended.
  Result<JobView> cancel(const std::string& id);
  // Forgets a job that has ended, with its files and its log; what it was. failed_precondition if
  // it has not ended, or is gone.
  Result<JobView> remove(const std::string& id);
  // A page from line `from` on. If there is none, and the job goes on, waits for one.
  Result<LogPage> logs(const std::string& id, uint64_t from, std::chrono::milliseconds wait = {});

  Result<std::vector<RemoteFile>> files(const std::string& id);
  // Writes one of them to <directory>/<name>, whole or not at all; the path. What came is what the
  // master has: its SHA-256 is checked. A connection that is lost is taken up where it broke.
  // invalid_argument for a name that is not relative, leads out of the directory or begins with a
  // dot: no job has left such a file (daemon/jobs/grammar.h).
  Result<std::string> fetch(const std::string& id, const std::string& name,
                            const std::string& directory, Files& files = real_files());

  Result<std::vector<NodeView>> nodes();
  // The worker gets no job from now on, and its job leaves it at a fence; or it gets jobs again.
  // failed_precondition if there is none.
  Result<NodeView> drain(const std::string& worker, bool undo = false);
  Result<ClusterView> cluster();

  // The last hello was refused: the error at hand is about who we are.
  bool refused() const;

 private:
  class Core;
  explicit ClusterClient(std::unique_ptr<Core> core);
  std::unique_ptr<Core> core_;
};

}  // namespace leat
