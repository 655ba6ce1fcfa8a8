// The sessions of a master. Each session is a job, so it waits in the queue, leases workers, is
// shown and can be cancelled. It has a host (session_host.h) from its opening until its job has
// ended.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "daemon/base/task_thread.h"
#include "daemon/checkpoint/checkpoint_key.h"
#include "daemon/jobs/events.h"
#include "daemon/jobs/records.h"
#include "daemon/master/session_host.h"
#include "daemon/traces/situation.h"
#include "devices/base/status.h"
#include "transport/rpc/loop.h"

namespace leat {

struct SessionHostsParts {
  template <typename T>
  using Done = std::function<void(Result<T>)>;

  RpcLoop& loop;
  const Catalogue& catalogue;
  std::function<void(Submission, Done<JobView>)> submit;
  std::function<void(std::string job, std::string by)> cancel;
  // True if the job is RUNNING.
  std::function<bool(const std::string& job)> runs;
  std::function<Result<JobView>(const std::string& job)> job;
  // The folder of the jobs' folders: the record of a lasting session is in that of its job.
  std::string folder;
  // Of the master: the keys that encrypt these records.
  std::shared_ptr<const CheckpointKeys> keys;
  // The master cancels a session that no client has held for this long, unless it is a lasting one.
  std::chrono::milliseconds lease{30'000};
};

// True if it opens a lasting session.
bool is_lasting_session(const Submission& submission);

// Threads: any. It outlives the tasks on the loop, which call it.
class SessionHosts {
 public:
  template <typename T>
  using Done = std::function<void(Result<T>)>;

  explicit SessionHosts(SessionHostsParts parts) : parts_(std::move(parts)) {}
  ~SessionHosts() { notes_->stop(); }

  const Catalogue& catalogue() const { return parts_.catalogue; }

  // Reads from the record of a lasting session which clients it had before the master's restart:
  // they are judged as before. Call it before any client may come.
  Status restore(const std::string& job);

  // Returns the host of a new session, or of the one that the same request opened before. `done`:
  // see JobService. failed_precondition if the session has ended.
  void open(const SessionOpening& opening, Done<std::shared_ptr<SessionHost>> done);
  // Returns the host of a lasting session by the id of its job, for a client of this name, which
  // takes it over. unavailable if the session has no
  // host yet after a restart of the master; failed_precondition if it is no lasting session, has
  // ended, or was taken over from this client; invalid_argument if there is no such job.
  Result<std::shared_ptr<SessionHost>> attach(const std::string& job, const std::string& client);
  // A client has released the session, or does not hold it yet. If no client holds it before the
  // lease runs out, cancels the job.
  void left(const std::shared_ptr<SessionHost>& host);
  // Closes the session. If its job does not run yet, this cancels the job.
  void close(const std::shared_ptr<SessionHost>& host, std::function<void(Status)> done);

  // Waits for the host of a job that has its workers. After a restart of the master the client has
  // the time of the lease to open the session again: unavailable if it does not. A lasting session
  // needs no client for it. Null once `ended()`.
  Result<std::shared_ptr<SessionHost>> await(const std::string& job, const Submission& submission,
                                             const std::function<bool()>& ended);
  // The clients of a session and their calls; nothing if the job is no session.
  std::optional<SessionSituation> situation(const std::string& job);
  // Wakes the threads in await(), which then check `ended()`.
  void wake();
  // A job has changed. If it is the job of a session and ends or has ended, all calls of the
  // session fail.
  void changed(const JobView& job);
  // Ends all sessions.
  void stop(const Status& cause);

 private:
  void opened(Result<JobView> view, SessionOptions options,
              const Done<std::shared_ptr<SessionHost>>& done);
  void give_up(const SessionHost& host);
  // The host of a job, made if there is none. REQUIRES: mutex_ is held.
  std::shared_ptr<SessionHost> host_of(const std::string& job, SessionOptions options);
  SessionRecord record_of(const std::string& job) const {
    return {parts_.folder + "/" + job + "/session.db", job, parts_.keys};
  }
  std::chrono::milliseconds lease_of(const SessionHost& host) const;

  const SessionHostsParts parts_;
  // Writes the clients of lasting sessions into their records.
  const std::shared_ptr<TaskThread> notes_ = std::make_shared<TaskThread>("session-notes");
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::shared_ptr<SessionHost>> hosts_;  // by job
  std::map<std::string, std::vector<std::string>> clients_;    // by job: of restore()
};

}  // namespace leat
