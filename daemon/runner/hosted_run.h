// One run as its runner holds it: from prepare to release, see interface Runner of
// daemon/wire/cluster.capnp. Between connect and release it has a LiveRun, which steps.
#pragma once

#include <array>
#include <cstdint>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "daemon/runner/control_threads.h"
#include "daemon/runner/end_cause.h"
#include "daemon/runner/live_run.h"
#include "daemon/runner/run_links.h"
#include "daemon/runner/runner_parts.h"
#include "daemon/wire/run_setup.h"
#include "scheduler/runtime/device_host.h"

namespace leat {

// Threads: any. The members that block say so: call them on the run's strand, which keeps their
// order. Every member may be called again, and then answers as it did the first time.
class HostedRun final : public std::enable_shared_from_this<HostedRun> {
 public:
  // A run of `assembly`, whose plan is to come: its partition `partition` is for this runner, and
  // `digest` is the digest of its bytes.
  HostedRun(RunnerParts& parts, ControlThreads::Strand strand, const RunnerAssembly& assembly,
            uint64_t id, uint32_t partition, const Sha256Digest& digest);
  HostedRun(const HostedRun&) = delete;
  HostedRun& operator=(const HostedRun&) = delete;
  // REQUIRES: released.
  ~HostedRun() = default;

  uint64_t id() const { return id_; }
  ControlThreads::Strand& strand() { return strand_; }
  bool expects(uint32_t partition, const Sha256Digest& digest) const {
    return partition == partition_ && digest == digest_;
  }

  // Takes the plan's bytes, whose digest the caller has checked. Blocks.
  Status prepare(const Bytes& bytes);
  // Opens the links to all peers and binds everything. Blocks, for 30 s at most.
  Status connect(const RunSetup& setup);

  // failed_precondition, or why connecting failed, if it is not connected.
  Result<std::shared_ptr<LiveRun>> live() const;
  // Null if it is not connected.
  std::shared_ptr<LiveRun> live_or_null() const;

  // The run is to end: a connect() that waits returns `cause`. The first cause stays.
  void cancel(const Status& cause);
  // Ends the run with the cause that cancel() was given. Blocks.
  void end();
  // Nothing of the run is computed afterwards, and its memory is free. Blocks.
  void release();

  // True if the plan has state of the job other than variables: queues, counters.
  bool keeps_more_than_variables() const;
  // The turns that the run has finished, and the traffic of its links; also of a run that was
  // released.
  struct Work {
    uint64_t turns = 0;
    LinkCounters traffic;
  };
  Work work() const;

 private:
  Result<std::shared_ptr<const Plan>> decode(const Bytes& bytes) const;
  Status check(const RunSetup& setup, const Plan& plan) const;
  std::unique_ptr<RunLinks> make_links(const RunSetup& setup);
  Status bind(const RunSetup& setup);
  Status bind_host(const RunSetup& setup, const std::string& root, RunLinks::Links links,
                   Deadline deadline);
  Result<std::string> data_root(const std::string& name) const;
  std::string subject() const;

  RunnerParts& parts_;
  ControlThreads::Strand strand_;
  const RunnerAssembly assembly_;
  const uint64_t id_;
  const uint32_t partition_;
  const Sha256Digest digest_;
  const std::shared_ptr<EndCause> cause_ = std::make_shared<EndCause>();

  mutable std::mutex mutex_;
  std::shared_ptr<HostedPartition> prepared_;
  std::unique_ptr<RunLinks> links_;  // from the call of connect() on
  std::shared_ptr<LiveRun> live_;
  std::future<void> freed_;  // ready when nobody holds live_ any more
  Status connected_;         // why it is not, once links_ is there
  bool more_than_variables_ = false;
  std::optional<Work> released_;  // once the run is released: its work
};

}  // namespace leat
