// An interactive session on a cluster: what daemon/session/session.h is in one process. Steps mean
// the same here and there; docs/session.md is the contract of both.
//
//   auto session = RemoteSession::open({.address = "127.0.0.1:17461"}, {.workers = 2});
//   (*session)->extend(0, graph);                                       // version 1
//   (*session)->run({{"x", batch}}, {"loss"}, {"train"});               // -> {loss}
//
// The session is a job of its own, which leases whole workers until it is closed. Its variables and
// queues are nobody else's, and gone when it ends.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daemon/client/cluster_client.h"
#include "daemon/spec/step_signature.h"
#include "devices/base/status.h"
#include "devices/core/tensor.h"
#include "ops/graph/graph.h"

namespace leat {

struct RemoteSessionOptions {
  std::string name = "session";  // its job's, and in messages
  int workers = 1;               // that it leases. With `single`, constraints of the graph choose
  std::string strategy = "single";
  int shards = 1;
  uint64_t seed = 0;
  size_t plans = 64;                                            // kept; at most 1,024
  std::chrono::milliseconds timeout = std::chrono::minutes(1);  // of a step that names none
  std::chrono::milliseconds wait = std::chrono::minutes(1);     // for the workers, in the queue
};

struct RemoteStepState;

// A step in flight. Destroying it cancels the step if it is not over, and waits until it is.
// Threads: one at a time. The session outlives it.
class RemoteStep {
 public:
  explicit RemoteStep(std::shared_ptr<RemoteStepState> state);
  RemoteStep(RemoteStep&& other) noexcept;
  RemoteStep& operator=(RemoteStep&&) = delete;
  ~RemoteStep();

  // Blocks until the step is over: its fetches, or why there are none. REQUIRES: the first call.
  Result<std::vector<Tensor>> wait();
  bool over() const;
  // The step ends with `cancelled`, unless it is over.
  void cancel();

 private:
  std::shared_ptr<RemoteStepState> state_;
};

// A lost connection ends the calls that were waiting with `unavailable`, and cancels the steps in
// flight; whether such a step ran is not known. The next call connects again, if it comes within 30
// s: the graph, callables and variables are still there. A session whose job has ended (cancelled,
// or a worker was lost) is gone: calls say why.
//
// Threads: any, for all members; run() and its like block the caller, nobody else. It has a thread
// of its own, "rpc". The master may be any version that has the interface.
class RemoteSession {
 public:
  using Deadline = std::optional<std::chrono::steady_clock::time_point>;
  // Called once, when the step is over; on the rpc thread: it must not block, nor call the session.
  using Finished = std::function<void()>;

  // Returns when the session has its workers. deadline_exceeded, with what it waited for, after
  // options.wait: then it has left the queue. Other errors are those of ClusterClient. Of
  // `cluster`, `stop` and `on_lost` are not used.
  static Result<std::unique_ptr<RemoteSession>> open(ClusterClientOptions cluster,
                                                     RemoteSessionOptions options);
  // Closes. REQUIRES: no RemoteStep is left.
  ~RemoteSession();
  RemoteSession(const RemoteSession&) = delete;
  RemoteSession& operator=(const RemoteSession&) = delete;

  // The id of its job: what `leat show` and `leat cancel` take.
  const std::string& job() const;

  // As the members of Session of these names. Values of more than 256 KiB, or past that together,
  // take a way of their own; at most 256 MiB of each.
  Result<uint64_t> extend(uint64_t version, const Graph& graph);
  uint64_t version() const;  // the last that extend() returned
  Result<std::vector<Tensor>> run(const Feeds& feeds, const std::vector<std::string>& fetches,
                                  const std::vector<std::string>& targets, Deadline deadline = {});
  Result<RemoteStep> start(const Feeds& feeds, const std::vector<std::string>& fetches,
                           const std::vector<std::string>& targets, Deadline deadline = {},
                           Finished finished = {});
  Result<CallableId> make_callable(const Signature& signature);
  Result<std::vector<Tensor>> run_callable(CallableId id, const std::vector<Tensor>& feeds,
                                           Deadline deadline = {});
  // Unlike Session's, they return before the step is checked: what is wrong, wait() tells.
  Result<RemoteStep> start_callable(CallableId id, const std::vector<Tensor>& feeds,
                                    Deadline deadline = {}, Finished finished = {});
  Status release_callable(CallableId id);

  // Ends every step in flight with `cancelled`, and returns when none of them is being computed;
  // its job ends. Whatever is called afterwards fails. May be repeated.
  void close();

 private:
  class Core;
  explicit RemoteSession(std::unique_ptr<Core> core);
  std::unique_ptr<Core> core_;
};

}  // namespace leat
