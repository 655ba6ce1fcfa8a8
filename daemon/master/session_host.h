// A session that is served to a client elsewhere. Its calls wait in a queue until its job has
// workers; then threads of the host call the session (daemon/session/session.h).
//
// A host is made when the session is opened. serve() is the run of its job. The host is over once
// the session is closed or ended. Steps in flight hold no thread, so a step that waits delays no
// other.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "daemon/hosts/host_group.h"
#include "daemon/lasting/session_log.h"
#include "daemon/master/permits.h"
#include "daemon/master/session_lease.h"
#include "daemon/session/session.h"
#include "devices/base/status.h"

namespace leat {

class LastingHost;

// A request for a step.
struct HostedRequest {
  // Of a lasting session: the number of the step, and the last one whose outcome the client has.
  uint64_t number = 0, answered = 0;
  std::variant<Signature, CallableId> what;
  // In the signature's order. Called on one of the host's threads.
  std::function<Result<std::vector<Tensor>>()> feeds;
  std::chrono::milliseconds timeout{0};  // 0: that of the session
};

// The run of a job, for the session that it serves. Threads: that of serve().
struct SessionRun {
  std::function<bool()> ended;  // serve() is to return
  // So many steps of a lasting session were taken. `idle`: no call of it waits or is being done.
  std::function<void(uint64_t steps, bool idle)> taken;
  std::function<void(std::string)> warn;  // something went wrong that is nobody's error
};

// The order of calls: a call that is queued before serve() begins waits for it. Four threads take
// tasks from the queue, and results of steps come before new calls, since they free memory. Once
// the session is over, calls that have not begun fail with the cause of its end, or with
// `cancelled` if it was closed.
//
// Limits: 4,096 calls may wait, and the host holds 1 GiB for its clients (bytes()); a call beyond
// them fails with resource_exhausted, and its client may try again.
//
// Threads: any. A `Done` is called once, on another thread than the caller's, and must not block.
// It is not called if the call was dropped or the host is gone.
class SessionHost : public std::enable_shared_from_this<SessionHost> {
 public:
  template <typename T>
  using Done = std::function<void(Result<T>)>;
  using Fetches = std::vector<Tensor>;

  // A call that its caller can drop.
  class Call {
   public:
    virtual ~Call() = default;
    // The caller no longer waits. A call that has not begun will not begin.
    void drop() { dropped_ = true; }
    bool dropped() const { return dropped_; }

   private:
    std::atomic<bool> dropped_{false};
  };

  // Makes the graph of a file.
  using ReadGraph = std::function<Result<Graph>(const LoggedGraph&)>;

  SessionHost(std::string job, SessionOptions options, ReadGraph read_graph);
  virtual ~SessionHost();
  // This host, if it has a lasting session.
  virtual LastingHost* as_lasting() { return nullptr; }

  const std::string& job() const { return job_; }
  const SessionOptions& options() const { return options_; }
  // The bytes that the host may hold for its clients.
  Permits& bytes() { return bytes_; }

  // The calls of Session (daemon/session/session.h), with its results and errors. A thread of the
  // host reads the graph. A caller that no longer wants the answer calls drop() of the returned
  // object.
  virtual std::shared_ptr<Call> extend(LoggedGraph graph, Done<uint64_t> done);
  virtual std::shared_ptr<Call> make_callable(Signature signature, Done<CallableId> done);
  virtual std::shared_ptr<Call> release_callable(CallableId id, std::function<void(Status)> done);
  // Begins a step when a thread takes it from the queue; its timeout counts from there.
  // invalid_argument if the feeds are not as many as the signature names.
  virtual std::shared_ptr<Call> run(HostedRequest request, Done<Fetches> done);
  // The caller no longer waits for the step, which run() returned.
  virtual void drop(const std::shared_ptr<Call>& step);
  // Ends the step with `cancelled`, unless it is over.
  virtual void cancel(const std::shared_ptr<Call>& step);
  // Ends steps in flight with `cancelled`. `done` is called when the session is over.
  void close(std::function<void(Status)> done);

  // Serves on `hosts` until the session is over and all calls are answered. Returns ok if it was
  // closed, else the cause of its end. Blocks until then. Called once; `run` is for lasting
  // sessions.
  virtual Status serve(HostGroup& hosts, const SessionRun& run);
  // Fails all present and later calls with the cause. The first cause stays.
  void end(const Status& cause);

  // Counts the clients that hold the session.
  SessionLease& lease() { return lease_; }
  // SessionLease::take_over().
  virtual bool take_over(const std::string& client) { return lease_.take_over(client); }
  // The time since its clients have had no call open; nothing while one is, or before serve().
  std::optional<std::chrono::milliseconds> idle() const;
  // True if the session is not over and no client has held it for as long as `lease`.
  bool is_abandoned(std::chrono::milliseconds lease) const;

 protected:
  // Up to the fields: for this host and for that of a lasting session.
  // A step that a client asked for.
  struct AskedStep : Call {
    AskedStep(HostedRequest asked, Done<Fetches> told)
        : request(std::move(asked)), done(std::move(told)) {}

    const HostedRequest request;
    const Done<Fetches> done;
    std::atomic<bool> cancelled{false};
  };
  struct Task {
    std::shared_ptr<Call> call;
    std::function<void(Session*)> work;         // null for a lasting session
    std::function<void(const Status&)> refuse;  // null: the task is done in any case
  };

  // Adds a task to the queue, or refuses it at once, on the caller's thread.
  void enqueue(Task task);
  // The session is over while it is being served: what runs must end.
  virtual void interrupt() {}
  // A call is answered. REQUIRES: mutex_ is held.
  void note_idle();
  bool has_calls() const { return !tasks_.empty() || load_.busy > 0 || load_.running > 0; }
  // The errors of a call that came after the end, and of one that came before. REQUIRES: mutex_ is
  // held.
  Status cause() const;
  Status cause_before() const;

  const std::string job_;
  const SessionOptions options_;
  const ReadGraph read_graph_;
  Permits bytes_;
  SessionLease lease_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Task> tasks_;
  struct Load {
    size_t busy = 0;     // tasks that threads are doing
    size_t running = 0;  // steps that have begun and whose results are not taken
    std::chrono::steady_clock::time_point idle_since;  // unless has_calls()
  };
  Load load_;
  bool serving_ = false;  // threads take the tasks, so end() leaves those to them
  bool over_ = false;     // closed or ended: no call is taken any more
  bool stop_ = false;     // nothing is left to do, and the threads end
  bool served_ = false;   // serve() has returned
  std::vector<std::function<void(Status)>> closers_;  // called when the session is over
  Status cause_;                                      // of the end; ok: it was closed

 private:
  class Step;
  // The life of a thread: does tasks until serve() sets stop_.
  void work(Session& session);
  // Calls the session for a request. A step in flight occupies no thread: `finished` queues the
  // task that takes its result.
  Result<StepHandle> launch(Session& session, const HostedRequest& request,
                            Session::Finished finished);
  void start(Session& session, const std::shared_ptr<Step>& step);
  // Passes the result of a step that is over to its caller.
  void take(const std::shared_ptr<Step>& step);
  // Counts a step as over, whether it has a result or did not start.
  void taken(Step& step);
};

}  // namespace leat
