// The client of a cluster, for people and their programs: it submits, watches and cancels jobs, and
// fetches their files. docs/cli.md describes the commands that use it.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "daemon/jobs/token_view.h"
#include "daemon/jobs/views.h"
#include "daemon/traces/diagnosis.h"
#include "devices/base/files.h"
#include "devices/base/status.h"
#include "transport/seal/certificates.h"
#include "transport/seal/seal.h"

namespace leat {

// The settings of a client.
struct ClusterClientOptions {
  std::string address;  // of the master: "127.0.0.1:17461"
  std::string cluster = "leat";
  std::string secret;                 // of the cluster; may be empty
  Seal seal = Seal::beyond_loopback;  // which connections have TLS
  // In place of the secret; null: none. `renew` is called before each connection, for files that
  // may have changed.
  std::shared_ptr<const CurrentCertificates> certificates = {};
  std::function<void()> renew = {};
  std::chrono::milliseconds connect_deadline{5'000};  // for connection and hello together
  std::chrono::milliseconds deadline{10'000};         // of a call, beyond the time that it waits
  // How long a call tries again when the connection is lost.
  std::chrono::milliseconds patience{30'000};
  bool await_master = false;  // connect() tries again as long, too
  // Called every 50 ms while a call waits: true ends the call with `cancelled`.
  std::function<bool()> stop;
  // Called when a call begins to try again, with the error that ended or prevented the connection.
  std::function<void(const Status& cause)> on_lost;
};

// A file that the job needs.
struct JobAttachment {
  std::string name;  // the name in the job file: relative, no ".."
  std::string path;  // of the file on this machine
};

// A job to submit.
struct JobRequest {
  std::string request_id;  // new_request_id(), called once for each job
  std::string text;        // of the job file
  std::vector<std::string> overrides;
  std::vector<JobAttachment> files;
  std::vector<std::string> chaos = {};  // daemon/spec/chaos_fault.h
  // The id of a job from whose newest valid checkpoint this one continues; `files` is empty then.
  std::string resume = {};
  std::string user = {};  // the name of the user who submits; "": not known
  bool paused = false;    // the job begins as PAUSED
  // Reads the attachments, and outlives the request; null: real_files().
  Files* reads_with = nullptr;
};

// Returns 32 random hexadecimal digits.
std::string new_request_id();

// A file that a job has left in its folder.
struct RemoteFile {  // relative to the job's folder
  std::string name;  // relative to the job's folder
  uint64_t size = 0;
};

// A connection to the master. When it is lost, the client connects again and repeats the call,
// after pauses that grow, until the master answers or `patience` is over. All calls may be repeated
// safely.
//
// Errors: `unavailable` if the master cannot be reached, or no longer; if refused() is true, the
// master belongs to another cluster or does not accept the secret; otherwise those that
// daemon/wire/cluster.capnp describes.
//
// Threads: one at a time. All calls block. The client has its own thread, "rpc".
class ClusterClient {
 public:
  // Connects once, or for `patience` with await_master.
  static Result<std::unique_ptr<ClusterClient>> connect(ClusterClientOptions options);
  ~ClusterClient();
  ClusterClient(const ClusterClient&) = delete;
  ClusterClient& operator=(const ClusterClient&) = delete;

  // Uploads files beyond 512 KiB in total first, in pieces; a file may have up to 16 GiB. Each is
  // read twice: failed_precondition if it changes in between. Ok when the master has stored the
  // job.
  Result<JobView> submit(const JobRequest& request);

  // Returns the jobs, the oldest first; only the newest 1,000 if there are more.
  Result<std::vector<JobView>> jobs();
  // `id`, here and below, is an id or a prefix of only one id. failed_precondition if there is no
  // such job.
  Result<JobView> job(const std::string& id);
  // Returns the job when its version is greater than `seen`, or unchanged after `wait` (at most 30
  // s).
  Result<JobView> watch(const std::string& id, uint64_t seen, std::chrono::milliseconds wait);
  // Cancels a job and returns it. failed_precondition if it has ended.
  Result<JobView> cancel(const std::string& id);
  // Pauses a job and returns it, or resumes it with `undo`. failed_precondition if it has ended, or
  // is a session.
  Result<JobView> pause(const std::string& id, bool undo = false);
  // Has a job that trains write a checkpoint after its next step, and returns the job as it was
  // before; progress.last.checkpoint_step shows the checkpoint. failed_precondition if it does not
  // train.
  Result<JobView> save(const std::string& id);
  // The reason why a job does not go on. The caller of a job that hangs does not want to wait: set
  // short deadlines in the options.
  Result<Diagnosis> why(const std::string& id);
  // Records the next `steps` steps of a job that trains, and returns a file for read_recording() of
  // daemon/wire/recording_file.h. failed_precondition if it does not train, deadline_exceeded if no
  // step has ended after `wait` (at most 60 s).
  Result<std::vector<std::byte>> record(const std::string& id, uint32_t steps,
                                        std::chrono::milliseconds wait);
  // Deletes a job that has ended, with its files and its log, and returns its last view.
  // failed_precondition if it has not ended, or does not exist.
  Result<JobView> remove(const std::string& id);
  // Returns a page of lines, from line `from` on. If there is none yet and the job has not ended,
  // waits for one.
  Result<LogPage> logs(const std::string& id, uint64_t from, std::chrono::milliseconds wait = {});

  // Returns the number of the line that comes next.
  Result<uint64_t> log_end(const std::string& id);

  // Lists the files that a job has left.
  Result<std::vector<RemoteFile>> files(const std::string& id);
  // Writes one of them to <directory>/<name>, as a whole or not at all, and returns the path.
  // Checks the SHA-256 of the bytes. After a lost connection it continues at the same byte.
  // invalid_argument for a name that is absolute, leads out of the directory or begins with a dot:
  // no job has such a file (daemon/jobs/grammar.h).
  Result<std::string> fetch(const std::string& id, const std::string& name,
                            const std::string& directory, Files& files = real_files());

  // Returns the workers.
  Result<std::vector<NodeView>> nodes();
  // Drains a worker: it gets no new job, and its job leaves it at a fence; with `undo`, it gets
  // jobs again. failed_precondition if there is no such worker.
  Result<NodeView> drain(const std::string& worker, bool undo = false);
  // Makes a token for a person or a worker: see transport/rpc/grant.h. `role`: its right_name().
  // `lasts`: 0 is without end. failed_precondition unless this client is an admin.
  struct NewToken {
    TokenView view;
    std::string text;  // with its key
  };
  Result<NewToken> create_token(const std::string& role, const std::string& name,
                                std::chrono::seconds lasts);
  // Refuses the token from now on, and ends its connections within a second.
  Result<TokenView> revoke_token(uint64_t number);
  Result<std::vector<TokenView>> tokens();
  // Returns the state of the cluster.
  Result<ClusterView> cluster();

  // True if the master refused the last hello, so that the error is about the cluster's name or
  // secret.
  bool refused() const;

 private:
  class Core;
  explicit ClusterClient(std::unique_ptr<Core> core);
  std::unique_ptr<Core> core_;
};

}  // namespace leat
