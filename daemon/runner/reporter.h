// Reports the progress of a runner's runs to the master: Registry.report of
// daemon/wire/cluster.capnp.
//
// One report is in flight at a time; news that come meanwhile go with the next one. A report goes
// at once if the master may be waiting for it, because all allowed steps are finished or the run
// has failed. While a run steps freely, a report goes every 20 ms at most. The class has no thread:
// the thread that finishes a turn posts to the loop, unless a report is under way.
#pragma once

#include <chrono>
#include <functional>
#include <memory>

#include "daemon/runner/job_runner.h"
#include "transport/rpc/loop.h"

namespace leat {

class RpcClient;

// Threads: any. It is made before the runner that calls its news(), and destroyed after the loop
// has stopped, or while nothing is in flight.
class Reporter {
 public:
  // A report fails if the master does not answer it within `patience`. `loop` outlives it.
  explicit Reporter(RpcLoop& loop, std::chrono::milliseconds patience = std::chrono::seconds(10));
  ~Reporter();
  Reporter(const Reporter&) = delete;
  Reporter& operator=(const Reporter&) = delete;

  // For JobRunner::create().
  TurnLog::News news();
  // Reports from now on, until stop(). If a report fails, `failed` is called once, on the loop's
  // thread. All outlive the tasks on the loop.
  void start(JobRunner& runner, RpcClient& master, std::function<void(const Status&)> failed);
  // Ignores the answer to a report in flight. The reporter may be started again, with another
  // master. Waits until the loop has run a short task, so the caller must hold no lock that the
  // loop needs.
  void stop();

 private:
  struct Core;
  const std::shared_ptr<Core> core_;
};

}  // namespace leat
