// A lasting session (daemon/lasting) that is served to a client elsewhere. Several runs of its job
// serve it, one after the other: serve() goes on where the last one stopped, and between two of
// them the calls wait. Only close() and end() end it.
//
// One thread does the calls, in their order. It has one client, the last that holds it
// (SessionLease::is_of()), and a step that this client gives up is done nevertheless.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "daemon/base/task_thread.h"
#include "daemon/lasting/lasting_session.h"
#include "daemon/master/session_host.h"

namespace leat {

// Threads and limits: those of SessionHost.
class LastingHost final : public SessionHost {
 public:
  // `notes` writes the clients that come into the record.
  LastingHost(SessionOptions options, ReadGraph read_graph, SessionRecord record,
              std::shared_ptr<TaskThread> notes);
  LastingHost* as_lasting() override { return this; }
  // The record has the client before another call is done, and soon if none comes, also while the
  // session has no workers.
  bool take_over(const std::string& client) override;

  std::shared_ptr<Call> extend(LoggedGraph graph, Done<uint64_t> done) override;
  std::shared_ptr<Call> make_callable(Signature signature, Done<CallableId> done) override;
  std::shared_ptr<Call> release_callable(CallableId id, std::function<void(Status)> done) override;
  std::shared_ptr<Call> run(HostedRequest request, Done<Fetches> done) override;
  void drop(const std::shared_ptr<Call>& step) override;
  void cancel(const std::shared_ptr<Call>& step) override;

  // The numbers of the last step that was taken, and of the graph's version.
  struct State {
    uint64_t steps = 0, version = 0;
  };
  std::shared_ptr<Call> state(Done<State> done);
  // The calls of LastingSession with these names.
  std::shared_ptr<Call> outcome(uint64_t number, Done<Fetches> done);
  std::shared_ptr<Call> save(std::function<void(Status)> done);

  // Returns as SessionHost::serve() when the session is over; `cancelled` when `run.ended()` is
  // true; another error if the hosts or the record have failed.
  Status serve(HostGroup& hosts, const SessionRun& run) override;
  // `ended()` of the run has become true.
  void halt();
  // Deletes the record, which has no use any more: the job has ended.
  void retire() { lasting_.log().retire(); }
  // The steps that were taken. REQUIRES: serve() has returned.
  uint64_t steps() const { return lasting_.steps(); }

 private:
  void interrupt() override { lasting_.halt(); }
  // Does the calls until the session is over, or has to leave its hosts.
  void work(const SessionRun& run);
  // Waits for a call, or for the end; tells when the session is idle. `lock`: of mutex_.
  void await_call(std::unique_lock<std::mutex>& lock, const SessionRun& run);
  // Writes the clients that have come into the record. If this fails, the next call and the next
  // client try again.
  Status note_clients();
  // The same, from the thread of serve(), which warns of an error.
  void note_clients(const SessionRun& run);
  void do_step(const std::shared_ptr<AskedStep>& step);
  // A call that no other session has.
  template <typename T, typename F>
  std::shared_ptr<Call> ask(Done<T> done, F question);
  // The session is over: answers all calls.
  void answer_all();

  LastingSession lasting_;
  const std::shared_ptr<TaskThread> notes_;
  std::mutex noting_;               // held in note_clients()
  std::atomic<bool> asked_{false};  // notes_ has a task that will write the clients
  bool redo_ = false;               // the call that is being done waits for the next serve()
};

}  // namespace leat
