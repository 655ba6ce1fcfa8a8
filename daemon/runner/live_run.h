// A run that is connected: it steps, and tells how far it is.
//
// Its HostedRun makes it when all of its links are open, and lets go of it when the run is
// released. Others may hold it for the length of a call; then its steps have failed, and it
// computes nothing.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "daemon/chaos/fault_injector.h"
#include "daemon/runner/end_cause.h"
#include "daemon/runner/runner_parts.h"
#include "daemon/runner/turn_log.h"
#include "daemon/wire/run_report.h"
#include "daemon/wire/run_standing.h"
#include "scheduler/runtime/device_host.h"
#include "transport/link_counters.h"

namespace leat {

// Threads: any. The calls that step a run (extend, hold, fence, feed, renumber) do not block.
// HostedRun owns it between connect and release; calls that are under way share it. Steps are those
// of the job, and turns count from the first step of this run.
class LiveRun final : public GatedRun {
 public:
  // `links`: the run's, owned by `run`. `cause`: why the run is to end, once it is.
  LiveRun(RunnerParts& parts, uint64_t assembly, const RunPart& part,
          std::shared_ptr<HostedPartition> run, std::vector<Link*> links,
          std::shared_ptr<const EndCause> cause);

  // Hands the run to the executor. No step is allowed yet.
  void start();

  // Sets the feeds, then allows the steps below `limit`. failed_precondition for feeds while a step
  // is unfinished. Ok and without effect if that many steps were allowed before, so a call may be
  // repeated. Returns the error of a run that has failed.
  Status extend(uint64_t limit, const std::vector<std::pair<uint32_t, Bytes>>& feeds);
  // Takes back the steps that have not begun. Returns the limit that is left.
  uint64_t hold();
  // Sets the limit for a run whose peers were held: it may be lower than before. Steps that have
  // begun are finished all the same.
  void fence(uint64_t limit);
  // failed_precondition while a step is unfinished. `value` has exactly the bytes of the feed's
  // shape and dtype: invalid_argument otherwise.
  Status feed(uint32_t index, const Bytes& value);
  // Sets the number that kernels see for the next step. failed_precondition while a step is
  // unfinished.
  Status renumber(uint64_t step);
  // As DeviceHost::between_steps().
  Status between_steps(uint64_t step, std::function<void()> between);

  uint64_t number() const override { return part_.run; }
  // Steps from `step` on do not begin, although the master has allowed them. A gate that moves up
  // lets them pass.
  void set_gate(uint64_t step) override;
  // Returns deadline_exceeded, or the error of a run that has failed.
  Status await_step(uint64_t step, std::chrono::steady_clock::time_point deadline) override;

  // Ends the run with its cause. Blocks.
  void end();
  // Nothing of the run is computed afterwards. Blocks.
  void release();
  // Ends the run if one of its links has failed, also if no step needs that link now. Threads: the
  // run's strand.
  void heed_links();

  uint64_t turns() const;
  // The traffic of all links of the run.
  LinkCounters traffic() const;
  // As RunWork::tiles; 0 for an endless run.
  uint64_t tiles_done() const;
  // A step is unfinished. Always false for an endless run, whose steps wait for requests.
  bool stepping() const;
  // Blocks until no allowed step is unfinished, or the run has failed. Returns at once for an
  // endless run: it writes no variables.
  Status settle(Deadline deadline) const;
  // The peers and values that the run waits for, for people; "" if it does not wait.
  std::string waits_for() const;
  // The state of the run now. The runner asks several times in a second, so that this knows since
  // when nothing has changed.
  RunStanding standing();
  // Nothing is computed until a value of a peer comes, or a peer takes one.
  bool waits_for_peer() const;
  // A table of the kernels' times; "" if the run was not made with a profile.
  std::string profile() const;
  // As TurnLog::take(), and says whether a failure came from elsewhere. The failure of an
  // accelerator becomes `unavailable`, since a job goes on after it with another process.
  bool take_report(RunReport& report, size_t most);

 private:
  Status set_feed(uint32_t index, const Bytes& value) const;
  void tell_of(const Link& link);
  bool derived(const Status& failure) const;
  // True if the failure is the device's own, and not that of an operand.
  bool is_of_device(const Status& failure) const;
  Run& run() const { return run_->run(); }
  std::string subject() const;

  RunnerParts& parts_;
  const uint64_t assembly_;
  const RunPart part_;
  const std::shared_ptr<HostedPartition> run_;
  const std::vector<Link*> links_;
  const std::shared_ptr<const EndCause> cause_;
  TurnLog log_;

  // The last change that standing() has seen.
  struct Change {
    uint64_t turns = 0, tiles = 0;
    std::chrono::steady_clock::time_point at = std::chrono::steady_clock::now();
  } change_;

  mutable std::mutex mutex_;
  std::set<std::string> told_of_;  // peers whose links have failed
  uint64_t wanted_ = 0;            // the steps below are allowed, if the gate lets them pass
  uint64_t gate_ = std::numeric_limits<uint64_t>::max();
};

}  // namespace leat
