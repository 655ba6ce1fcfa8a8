// The calls to one runner, and the table of its runs. Includes Cap'n Proto: for .cc files.
#pragma once

#include <kj/async.h>

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "daemon/remote/remote_host.h"
#include "daemon/wire/cluster.capnp.h"
#include "daemon/wire/run_part.h"
#include "transport/rpc/call.h"
#include "transport/rpc/loop.h"

namespace leat {

struct LastSteps;
struct PendingCall;
struct RemoteRunState;

// The deadline of every call of the control plane, unless cluster.capnp says otherwise.
inline constexpr auto kCallDeadline = std::chrono::seconds(10);

// Says in a request which partition of a run it is for.
template <typename Request>
void name_part(const RunPart& part, Request& request) {
  request.setRun(part.run);
  request.setPartition(part.partition);
}

// Returns the Status of an answer.
template <typename Response>
Status outcome_of(const Response& response) {
  return status_of(response.getOutcome());
}

// The master's side of one runner: its capability, and the runs that its reports belong to. Its
// RemoteHost, its runs, and calls in flight share it. Threads: any, unless a member says otherwise.
class RunnerChannel final : public std::enable_shared_from_this<RunnerChannel> {
 public:
  // Threads: the loop's.
  RunnerChannel(RpcLoop& loop, RunnerFacts facts, wire::Runner::Client runner);
  ~RunnerChannel();

  const RunnerFacts& facts() const { return facts_; }
  RpcLoop& loop() const { return loop_; }
  bool on_loop() const { return loop_.on_loop_thread(); }
  // As RemoteHost::status() and RemoteHost::lost().
  Status status() const;
  void lost(const Status& cause);
  // The calls that are not answered yet, the oldest first.
  std::vector<PendingCall> pending() const;

  // --- functions for the loop's thread ---

  // Adds a run on this runner.
  void add(std::shared_ptr<RemoteRunState> run);
  // Removes a run, and cancels the calls that still set it up. The channel remembers how far the
  // last runs were that trained.
  void remove(const RunPart& run);
  // Returns null if there is no such run.
  std::shared_ptr<RemoteRunState> find(const RunPart& run) const;
  // The runs on this runner, in the order of their numbers.
  std::vector<std::shared_ptr<RemoteRunState>> runs() const;
  // How far the last runs that train were, be they removed or not, the oldest first.
  std::vector<LastSteps> last_steps() const;
  // Cancels the calls that set the run up, and their blobs.
  void cancel_setup(const RunPart& run);

  // --- calls ---

  // Makes a call and blocks until it ends. `function` takes the capability and returns a promise
  // for a Status or Result<T>. Returns that outcome, with the node's name and `doing` ("preparing")
  // added to an error; or deadline_exceeded; or the error of a lost runner.
  template <typename F>
  auto call(std::string_view doing, std::chrono::nanoseconds deadline, F function) {
    return leat::call(loop_, bound(doing, std::move(function)), deadline, named(doing));
  }
  // The same without waiting. `done` is called once, on the loop's thread, or on the calling thread
  // if the loop has stopped. In that case it must not touch anything that belongs to the loop:
  // on_loop() tells which.
  template <typename F, typename Done>
  void start(std::string_view doing, std::chrono::nanoseconds deadline, F function, Done done) {
    start_call(loop_, bound(doing, std::move(function)), deadline, named(doing), std::move(done));
  }
  // The same for a call that sets up `run`: cancel_setup() and remove() cancel it.
  template <typename F, typename Done>
  void start_setup(const RunPart& run, std::string_view doing, std::chrono::nanoseconds deadline,
                   F function, Done done) {
    auto setup = [this, run, function = std::move(function)](wire::Runner::Client& runner) mutable {
      return setup_of(run).wrap(function(runner));
    };
    start(doing, deadline, std::move(setup), std::move(done));
  }

 private:
  struct Inside;

  // Counts a call as pending until the result is destroyed.
  kj::Own<void> note_call(const std::string& doing);
  std::string named(std::string_view doing) const { return cat(doing, " on ", facts_.node); }
  kj::Canceler& setup_of(const RunPart& run);
  wire::Runner::Client& runner();
  // Resolves when the runner is lost.
  kj::Promise<void> gone();
  // Adds the node and `doing` to an error.
  Status with_place(const Status& status, std::string_view doing) const;
  template <typename T>
  Result<T> with_place(Result<T> result, std::string_view doing) const {
    if (result.ok()) return result;
    return with_place(result.status(), doing);
  }

  template <typename F>
  auto bound(std::string_view doing, F function) {
    return [self = shared_from_this(), doing = std::string(doing),
            function = std::move(function)]() mutable {
      auto promise = function(self->runner()).attach(self->note_call(doing));
      using O = typename rpc_internal::PromisedBy<decltype(promise)>::type;
      auto answered = promise.then(
          [self, doing](O&& outcome) -> O { return self->with_place(std::move(outcome), doing); });
      return answered.exclusiveJoin(self->gone().then([self]() -> O { return self->status(); }));
    };
  }

  RpcLoop& loop_;
  const RunnerFacts facts_;
  Inside* inside_ = nullptr;  // on the loop
  uint64_t inside_id_ = 0;
  mutable std::mutex mutex_;
  Status lost_;
  // The calls that are not answered yet, by a number that counts up.
  std::map<uint64_t, std::pair<std::string, std::chrono::steady_clock::time_point>> pending_;
  uint64_t calls_ = 0;
};

}  // namespace leat
