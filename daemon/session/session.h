// An interactive session: a graph that grows, and steps of parts of it, any number in flight.
// docs/session.md is its contract; docs and tests show it in use.
//
//   auto session = Session::open(*hosts, {.job = "mnist"});
//   session->extend(0, graph);                                          // version 1
//   session->run({}, {}, {"init"});                                     // leat.Initialize nodes
//   session->run({{"x", batch}}, {"loss"}, {"train"});                  // -> {loss}
//   auto step = session->make_callable({{"x"}, {"loss"}, {"train"}});
//   session->run_callable(*step, {batch});                              // the same, without names
//
// State belongs to the job: sessions of one job on one master share its variables and queues, and
// nothing else. Closing a session frees neither.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daemon/hosts/host_group.h"
#include "daemon/session/signature.h"
#include "daemon/spec/session_settings.h"
#include "devices/base/status.h"
#include "devices/core/tensor.h"
#include "ops/graph/graph.h"

namespace leat {

struct SessionOptions : SessionSettings {
  std::string job = "job";  // whose variables
  int workers = 0;  // the first so many; 0: all. With `single`, constraints of the graph choose
  // Called when a plan has been registered on the hosts, so that its variables are there, and
  // before its first step. An error ends that step. May be empty.
  std::function<Status(const Plan&)> on_plan = {};
};

class SessionCore;
class SessionStep;

// A step in flight. Destroying it cancels the step if it is not over.
// Threads: one at a time. The session outlives it.
class StepHandle {
 public:
  explicit StepHandle(SessionStep& step) : step_(&step) {}
  StepHandle(StepHandle&& other) noexcept : step_(other.step_) { other.step_ = nullptr; }
  StepHandle& operator=(StepHandle&&) = delete;
  ~StepHandle();

  // Blocks until the step is over. Returns its fetches, or the error that ended it. When it returns
  // an error, no part of the step still runs. REQUIRES: the first call.
  Result<std::vector<Tensor>> wait();
  // True if wait() would not block.
  bool over() const;
  // The step ends with `cancelled`, unless it is over.
  void cancel();

 private:
  SessionStep* step_;
};

// Threads: any, for all members. run() and run_callable() block only their caller. The session can
// be used after a step fails; the variables keep what the step had written by then.
class Session {
 public:
  // If there is none, the deadline is the session's timeout from now.
  using Deadline = std::optional<std::chrono::steady_clock::time_point>;
  // Called once, when the step is over; on a thread of the runtime's: it must not block, nor call
  // the session.
  using Finished = std::function<void()>;

  // The master outlives the session. invalid_argument for a number of workers that there are not.
  static Result<std::unique_ptr<Session>> open(HostGroup& hosts, SessionOptions options);
  // Closes. REQUIRES: no StepHandle is left.
  ~Session();

  // Replaces the graph by one that holds it unchanged and adds to it; the whole of it passes the
  // gate, or nothing changes. failed_precondition, with both versions, unless `version` is the
  // current one (0 at first); invalid_argument names what was changed or is wrong. Returns the new
  // version. The graph's catalogue outlives the session. Steps in flight are not concerned.
  Result<uint64_t> extend(uint64_t version, const Graph& graph);
  uint64_t version() const;

  // One step: feeds the values, runs what the fetches and targets need, returns the fetches in
  // their order. Feeding a value that an op makes keeps that op from running for it.
  Result<std::vector<Tensor>> run(const Feeds& feeds, const std::vector<std::string>& fetches,
                                  const std::vector<std::string>& targets, Deadline deadline = {});
  Result<StepHandle> start(const Feeds& feeds, const std::vector<std::string>& fetches,
                           const std::vector<std::string>& targets, Deadline deadline = {},
                           Finished finished = {});

  // A signature that is resolved once. Compiled for each set of feed shapes when it is first run.
  Result<CallableId> make_callable(const Signature& signature);
  // `feeds` in the signature's order. failed_precondition for a callable that was released,
  // invalid_argument for one that never was.
  Result<std::vector<Tensor>> run_callable(CallableId id, const std::vector<Tensor>& feeds,
                                           Deadline deadline = {});
  Result<StepHandle> start_callable(CallableId id, const std::vector<Tensor>& feeds,
                                    Deadline deadline = {}, Finished finished = {});
  // Steps in flight continue.
  Status release_callable(CallableId id);

  // Gives the next step this number; without it, they count from 0. Random ops draw by it.
  void set_next_number(uint64_t number);

  // Ends every step in flight with `cancelled`, which names the session, and returns when none of
  // them is being computed. All later calls fail. May be repeated.
  void close();

 private:
  explicit Session(std::unique_ptr<SessionCore> core);
  std::unique_ptr<SessionCore> core_;
};

}  // namespace leat
