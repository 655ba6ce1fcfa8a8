// One partition of a run as its runner holds it: from prepare to release, see interface Runner of
// daemon/wire/cluster.capnp. Between connect and release it has a LiveRun, which steps.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "daemon/runner/control_threads.h"
#include "daemon/runner/end_cause.h"
#include "daemon/runner/live_run.h"
#include "daemon/runner/run_links.h"
#include "daemon/runner/runner_parts.h"
#include "daemon/wire/run_part.h"
#include "daemon/wire/run_setup.h"
#include "scheduler/runtime/device_host.h"

namespace leat {

// RunTable owns it, and calls that are under way share it. Its states follow each other: made,
// prepared (it has the plan and its memory is reserved), connected (it has links and a LiveRun),
// released.
// Threads: any. The members that block say so: call them on the run's strand, which keeps their
// order. Every member may be called again, and then answers as it did the first time.
class HostedRun final : public std::enable_shared_from_this<HostedRun> {
 public:
  // Finds another partition of the run on this runner; null if it is not prepared. It must not be
  // called under the lock of a HostedRun.
  using Sibling = std::function<std::shared_ptr<HostedPartition>(uint32_t partition)>;

  // A run of `assembly`, whose plan is to come: its partition `part.partition` is for this runner,
  // and `digest` is the digest of its bytes. `parts`, and what `sibling` refers to, outlive it.
  // Reserves nothing yet.
  HostedRun(RunnerParts& parts, ControlThreads::Strand strand, const RunnerAssembly& assembly,
            const RunPart& part, const Sha256Digest& digest, Sibling sibling);
  HostedRun(const HostedRun&) = delete;
  HostedRun& operator=(const HostedRun&) = delete;
  // REQUIRES: released.
  ~HostedRun() = default;

  const RunPart& part() const { return part_; }
  ControlThreads::Strand& strand() { return strand_; }
  // True if a repeated call of the master is for the same plan.
  bool expects(const Sha256Digest& digest) const { return digest == digest_; }
  // Null unless it is prepared.
  std::shared_ptr<HostedPartition> partition() const;

  // Takes the plan's bytes, whose digest the caller has checked. Blocks. Decodes the plan, reserves
  // memory for it, and makes its program. invalid_argument if the plan is malformed, or if its
  // partition is for another device; resource_exhausted, with the numbers, if it does not fit;
  // failed_precondition if the run was released.
  Status prepare(const Bytes& bytes);
  // Opens the links to all peers and binds everything. Blocks, for 30 s at most. Sets the data
  // root, and hands the run to the executor; no step is allowed yet. Ok if the run is connected
  // already. failed_precondition if it is not prepared; invalid_argument if the setup is for
  // another assembly, incarnation or number of partitions, or names an unknown data set;
  // resource_exhausted if a step fetches more than kMostRowBytes; otherwise the errors of
  // RunLinks::open(). Once the links were tried, further calls return the first result.
  Status connect(const RunSetup& setup);

  // failed_precondition, or why connecting failed, if it is not connected.
  Result<std::shared_ptr<LiveRun>> live() const;
  // Null if it is not connected.
  std::shared_ptr<LiveRun> live_or_null() const;

  // The run is to end: a connect() that waits returns `cause`. The first cause stays. Does not
  // block, and may be called in every state.
  void cancel(const Status& cause);
  // Ends the run with the cause that cancel() was given. Blocks. Does nothing if the run is not
  // connected.
  void end();
  // Nothing of the run is computed afterwards, and its memory is free. Blocks. Waits up to 28 s for
  // calls that still hold the LiveRun, and logs an error if that is not enough.
  void release();

  // True if the plan has state of the job other than variables: queues, counters. Known once the
  // run is prepared. Such state is of no use after a failure.
  bool keeps_more_than_variables() const;
  // The turns that the run has finished, and the traffic of its links; also of a run that was
  // released.
  struct Work {
    uint64_t turns = 0;
    LinkCounters traffic;
  };
  // Never falls from call to call. Zero for a run that was never connected.
  Work work() const;

 private:
  Result<std::shared_ptr<const Plan>> decode(const Bytes& bytes) const;
  // Finds a setup that is not for this process and this run.
  Status check(const RunSetup& setup, const Plan& plan) const;
  std::unique_ptr<RunLinks> make_links(const RunSetup& setup);
  // By partition of the plan: true for the others that are on this runner.
  std::vector<bool> siblings(const Plan& plan) const;
  // Makes a channel to each of them that gets a value of this one. failed_precondition if one is
  // not prepared.
  Status reach_siblings(std::vector<std::unique_ptr<Channel>>& channels) const;
  // Returns `status`; if the device of the partition is lost, as unavailable, and tells the
  // process.
  Status tell_of_loss(const HostedPartition& prepared, const Status& status);
  // Opens the links, then binds plan and links to the job's resources, and starts the LiveRun.
  Status bind(const RunSetup& setup);
  Status bind_host(const RunSetup& setup, const std::string& root, RunLinks::Links links,
                   Deadline deadline);
  // Logs how the kernels of a device of the host compute, unless it has logged just that before.
  void log_ways(size_t device) const;
  // The directory for the data of the plan; the runner's own, empty one if `name` is "".
  Result<std::string> data_root(const std::string& name) const;
  std::string subject() const;

  RunnerParts& parts_;
  ControlThreads::Strand strand_;
  const RunnerAssembly assembly_;
  const RunPart part_;
  const Sha256Digest digest_;
  const Sibling sibling_;
  const std::shared_ptr<EndCause> cause_ = std::make_shared<EndCause>();

  mutable std::mutex mutex_;
  std::shared_ptr<HostedPartition> prepared_;
  // Null until connect() is called.
  std::unique_ptr<RunLinks> links_;
  std::shared_ptr<LiveRun> live_;
  // Ready when no thread holds live_ any more.
  std::future<void> freed_;
  // The reason why the run is not connected, once links_ is there.
  Status connected_;
  bool more_than_variables_ = false;
  std::optional<Work> released_;  // once the run is released: its work
};

}  // namespace leat
