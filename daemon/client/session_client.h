// The client of an interactive session on a cluster. It corresponds to Session
// (daemon/session/session.h), which runs in one process. Steps have the same meaning in both;
// docs/session.md is the contract of both.
//
//   auto session = RemoteSession::open({.address = "127.0.0.1:17461"}, {.workers = 2});
//   (*session)->extend(0, graph);                                       // version 1
//   (*session)->run({{"x", batch}}, {"loss"}, {"train"});               // -> {loss}
//
// The session is a job, which leases whole workers until it is closed. No other job can use its
// variables and queues, and they are deleted when it ends.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daemon/client/cluster_client.h"
#include "daemon/spec/session_settings.h"
#include "daemon/spec/step_signature.h"
#include "devices/base/status.h"
#include "devices/core/tensor.h"
#include "ops/graph/graph.h"

namespace leat {

// The settings of a session.
struct RemoteSessionOptions : SessionSettings {
  int workers = 1;  // number to lease. With `single`, constraints of the graph choose
  // Lease workers with a GPU, and compute on it what there are kernels for.
  bool gpus = false;
  std::chrono::milliseconds wait = std::chrono::minutes(1);  // in the queue, for the workers
  // The longest time that a call of a lasting session waits for a master or workers that are gone.
  std::chrono::milliseconds patience = std::chrono::minutes(10);
};

struct RemoteStepState;

// A step in flight. Its destructor cancels the step if it is not over, and waits until it is.
// Threads: one at a time. The session must outlive it.
class RemoteStep {
 public:
  explicit RemoteStep(std::shared_ptr<RemoteStepState> state);
  RemoteStep(RemoteStep&& other) noexcept;
  RemoteStep& operator=(RemoteStep&&) = delete;
  ~RemoteStep();

  // Blocks until the step is over, and returns its fetches or its error. REQUIRES: it was not
  // called before.
  Result<std::vector<Tensor>> wait();
  // True if the step is over. Does not block.
  bool over() const;
  // Makes the step end with `cancelled`, unless it is over. Does not block.
  void cancel();

 private:
  std::shared_ptr<RemoteStepState> state_;
};

// A session on the cluster. If the connection is lost, calls that wait end with `unavailable`, and
// the steps in flight are cancelled; it is unknown whether such a step ran. The next call connects
// again. If it comes within 30 s, the graph, callables and variables still exist. If the session's
// job has ended (it was cancelled, or a worker was lost), calls return the reason.
//
// A lasting session (RemoteSessionOptions::save_every) survives the loss of its client, its workers
// and the master, and applies each step once. Its steps run one after the other, in the order in
// which they were started. If the connection is lost, its calls connect again and ask for the same
// step, for as long as `patience`; then the error is `unavailable`, and outcome() tells later how
// the step ended. release_callable() and save() wait for the steps that were started.
//
// Threads: any, for all members; run() and similar calls block only the calling thread. The session
// has its own thread, "rpc". The master may be of any version that has the interface.
class RemoteSession {
 public:
  using Deadline = std::optional<std::chrono::steady_clock::time_point>;
  // Called once, when the step is over, on the rpc thread: it must not block or call the session.
  using Finished = std::function<void()>;

  // Returns when the session has its workers. deadline_exceeded after options.wait, with the reason
  // why it waited: then it has left the queue. Other errors are those of ClusterClient. Ignores
  // `stop` and `on_lost` of `cluster`.
  static Result<std::unique_ptr<RemoteSession>> open(ClusterClientOptions cluster,
                                                     RemoteSessionOptions options);
  // Attaches to a lasting session, by the id of its job: its owner or an operator can. The client
  // that had it before is refused from now on. Of the options only `wait` and `patience` count.
  // failed_precondition if the session has ended, or is no lasting one.
  static Result<std::unique_ptr<RemoteSession>> attach(ClusterClientOptions cluster,
                                                       const std::string& job,
                                                       RemoteSessionOptions options = {});
  // Closes the session, unless it is a lasting one: that goes on until close(), or until it had no
  // client for as long as `keep`. REQUIRES: no RemoteStep exists.
  ~RemoteSession();
  RemoteSession(const RemoteSession&) = delete;
  RemoteSession& operator=(const RemoteSession&) = delete;

  // Returns the id of its job, for `leat show` and `leat cancel`.
  const std::string& job() const;

  // Like the members of Session with these names. Values of more than 256 KiB, and values beyond
  // 256 KiB in total, are uploaded before the call; a value may have up to 256 MiB.
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
  // Unlike those of Session, the start functions return before the step is checked: wait() returns
  // the error.
  Result<RemoteStep> start_callable(CallableId id, const std::vector<Tensor>& feeds,
                                    Deadline deadline = {}, Finished finished = {});
  Status release_callable(CallableId id);

  // Of a lasting session; failed_precondition for others. The steps that it has taken: they count
  // from 1, and each has an outcome, which may be an error.
  Result<uint64_t> steps();
  // The outcome of a step, also of one that another client started. failed_precondition if the
  // session has not taken it, or if a client had the outcome already.
  Result<std::vector<Tensor>> outcome(uint64_t step);
  // Saves the variables after the steps that were started, and not only after each `save_every`
  // steps.
  Status save();

  // Makes every step in flight end with `cancelled`, and returns when none of them is being
  // computed. The session's job ends. Later calls fail. May be called again.
  void close();

 private:
  class Core;
  explicit RemoteSession(std::unique_ptr<Core> core);
  std::unique_ptr<Core> core_;
};

}  // namespace leat
