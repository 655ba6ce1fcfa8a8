// Tells the master what became of a runner's runs: Registry.report of daemon/wire/cluster.capnp.
//
// One report is in flight at a time, and what comes meanwhile goes with the next. Where somebody
// may be waiting - all allowed steps are finished, the run has failed - it goes at once; while a
// run steps freely, once in a fiftieth of a second at most. No thread of its own: what
// finishes a turn posts to the loop, and only if no report is under way.
#pragma once

#include <chrono>
#include <functional>
#include <memory>

#include "daemon/runner/job_runner.h"
#include "transport/rpc/loop.h"

namespace leat {

class RpcClient;

// Threads: any. Made before the runner whose news() it takes; destroyed after the loop has stopped,
// or with nothing in flight.
class Reporter {
 public:
  // A report that the master has not answered within `patience` is not taken. `loop` outlives it.
  explicit Reporter(RpcLoop& loop, std::chrono::milliseconds patience = std::chrono::seconds(10));
  ~Reporter();
  Reporter(const Reporter&) = delete;
  Reporter& operator=(const Reporter&) = delete;

  // For JobRunner::create().
  TurnLog::News news();
  // From here on it reports, until stop(). `failed` is called on the loop's thread, once, if a
  // report is not taken. All outlive what is on the loop.
  void start(JobRunner& runner, RpcClient& master, std::function<void(const Status&)> failed);
  // What is in flight is of no interest any more. It may be started again, with another master.
  void stop();

 private:
  struct Core;
  const std::shared_ptr<Core> core_;
};

}  // namespace leat
