// The calls to one runner, and what it has of runs. Includes Cap'n Proto: for .cc files.
#pragma once

#include <kj/async.h>

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "daemon/remote/remote_host.h"
#include "daemon/wire/cluster.capnp.h"
#include "transport/rpc/call.h"
#include "transport/rpc/loop.h"

namespace leat {

struct RemoteRunState;

// Every call of the control plane, unless its comment in cluster.capnp says other.
inline constexpr auto kCallDeadline = std::chrono::seconds(10);

// The Status of an answer.
template <typename Response>
Status outcome_of(const Response& response) {
  return status_of(response.getOutcome());
}

// What the master has of one runner: its capability, and the runs that reports are for. Held by its
// RemoteHost, by its runs, and by calls in flight.
// Threads: any, unless a member says otherwise.
class RunnerChannel final : public std::enable_shared_from_this<RunnerChannel> {
 public:
  // Threads: the loop's.
  RunnerChannel(RpcLoop& loop, RunnerFacts facts, wire::Runner::Client runner);
  ~RunnerChannel();

  const RunnerFacts& facts() const { return facts_; }
  RpcLoop& loop() const { return loop_; }
  bool on_loop() const { return loop_.on_loop_thread(); }
  Status status() const;
  void lost(const Status& cause);

  // --- the loop's thread ---

  // A run on this runner, and what sets it up. remove() gives up what still does.
  void add(std::shared_ptr<RemoteRunState> run);
  void remove(uint64_t run);
  std::shared_ptr<RemoteRunState> find(uint64_t run) const;
  // Ends what sets a run up, so that its blobs and calls are given up there.
  void cancel_setup(uint64_t run);

  // --- calls ---

  // `function` takes the capability and gives a promise for a Status or Result<T>. The outcome is
  // its own, with the node's name and what was done; or the deadline; or why the runner is lost.
  // `doing` is for messages: "preparing".
  template <typename F>
  auto call(std::string_view doing, std::chrono::nanoseconds deadline, F function) {
    return leat::call(loop_, bound(doing, std::move(function)), deadline, named(doing));
  }
  // The same without waiting; `done` is called once, on the loop's thread, or on this one if the
  // loop has stopped. Then nothing that is the loop's may be touched: on_loop() tells.
  template <typename F, typename Done>
  void start(std::string_view doing, std::chrono::nanoseconds deadline, F function, Done done) {
    start_call(loop_, bound(doing, std::move(function)), deadline, named(doing), std::move(done));
  }
  // The same as a part of setting `run` up.
  template <typename F, typename Done>
  void start_setup(uint64_t run, std::string_view doing, std::chrono::nanoseconds deadline,
                   F function, Done done) {
    auto setup = [this, run, function = std::move(function)](wire::Runner::Client& runner) mutable {
      return setup_of(run).wrap(function(runner));
    };
    start(doing, deadline, std::move(setup), std::move(done));
  }

 private:
  struct Inside;

  std::string named(std::string_view doing) const { return cat(doing, " on ", facts_.node); }
  kj::Canceler& setup_of(uint64_t run);
  wire::Runner::Client& runner();
  // Ends when the runner is lost.
  kj::Promise<void> gone();
  Status said(const Status& status, std::string_view doing) const;
  template <typename T>
  Result<T> said(Result<T> result, std::string_view doing) const {
    if (result.ok()) return result;
    return said(result.status(), doing);
  }

  template <typename F>
  auto bound(std::string_view doing, F function) {
    return [self = shared_from_this(), doing = std::string(doing),
            function = std::move(function)]() mutable {
      auto promise = function(self->runner());
      using O = typename rpc_internal::PromisedBy<decltype(promise)>::type;
      auto answered = promise.then(
          [self, doing](O&& outcome) -> O { return self->said(std::move(outcome), doing); });
      return answered.exclusiveJoin(self->gone().then([self]() -> O { return self->status(); }));
    };
  }

  RpcLoop& loop_;
  const RunnerFacts facts_;
  Inside* inside_ = nullptr;  // on the loop
  uint64_t inside_id_ = 0;
  mutable std::mutex mutex_;
  Status lost_;
};

}  // namespace leat
