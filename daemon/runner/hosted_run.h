// One run as its runner holds it: from prepare to release, see interface Runner of
// daemon/wire/cluster.capnp.
#pragma once

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
#include "daemon/runner/control_threads.h"
#include "daemon/runner/device_memory.h"
#include "daemon/runner/run_links.h"
#include "daemon/runner/run_report.h"
#include "daemon/runner/runner_config.h"
#include "daemon/runner/turn_log.h"
#include "devices/base/bounded_reading.h"
#include "devices/base/log.h"
#include "scheduler/runtime/device_host.h"

namespace leat {

class HostedRun;

// Files of this machine that a run was to read do not answer.
struct StarvedInput {
  uint64_t assembly = 0;
  std::string how;  // "'/data/x': expected its file system to answer within 10 s, ..."
  std::chrono::milliseconds waited{0};
};

// What the runs of a runner share. All of it outlives them.
struct RunnerParts {
  const RunnerConfig& config;
  const Catalogue& catalogue;
  DeviceHost& worker;
  RunLinks::Threads threads;
  DeviceMemory& memory;
  std::mutex& binding;  // runs are bound one after the other: each sets where its data is
  TurnLog::News news;
  Logger log;
  // Told of each run whose steps are the job's, before it steps; may be empty.
  std::function<void(std::shared_ptr<HostedRun>)> on_training = {};
  // Told of links that fail by themselves, on the run's strand; may wait for a second; may be
  // empty.
  std::function<void(FailedLink)> on_failed_link = {};
  // Told of files that do not answer; as on_failed_link.
  std::function<void(StarvedInput)> on_starved = {};
  // How long files may take over an answer.
  std::chrono::milliseconds input_patience = ReadingLimits().answer;

  // For what is read of data: until `deadline`, in that assembly.
  ReadingLimits reading(Deadline deadline, uint64_t assembly) const;
};

// RunSetup of daemon/wire/cluster.capnp.
struct RunSetup {
  RunOptions options;
  std::array<uint8_t, 16> cluster{};
  uint64_t assembly = 0;
  Sha256Digest plan{};
  std::string transport = "auto";
  std::vector<Endpoint> peers;
  std::string data_root;
};

// Threads: any. Members that say so block: they are for the run's strand, where they run in order.
// Every member may be called again: what was done already is answered as if it were done now.
class HostedRun final : public GatedRun, public std::enable_shared_from_this<HostedRun> {
 public:
  // `partition` and `digest`: of the plan that is to come. `assembly`: that it is a run of.
  HostedRun(RunnerParts& parts, ControlThreads::Strand strand, const RunnerAssembly& assembly,
            uint64_t id, uint32_t partition, const Sha256Digest& digest);
  // REQUIRES: released.
  ~HostedRun() override = default;

  uint64_t id() const { return id_; }
  ControlThreads::Strand& strand() { return strand_; }
  bool expects(uint32_t partition, const Sha256Digest& digest) const {
    return partition == partition_ && digest == digest_;
  }

  // Blocks: takes the plan's bytes, whose digest is the one that was told.
  Status prepare(const Bytes& bytes);
  // Blocks, for 30 s at most: until all peers are connected and everything is bound.
  Status connect(const RunSetup& setup);

  Status extend(uint64_t limit, const std::vector<std::pair<uint32_t, Bytes>>& feeds);
  // Runner.hold, without a limit and with one. The limit that is left.
  Result<uint64_t> hold();
  Result<uint64_t> fence(uint64_t limit);
  Status feed(uint32_t index, const Bytes& value);
  Status renumber(uint64_t step);
  // As Run has it.
  Status between_steps(uint64_t step, std::function<void()> between);

  void set_gate(uint64_t step) override;
  Status await_step(uint64_t step, std::chrono::steady_clock::time_point deadline) override;

  // The run is to end: a connect() that waits returns `cause`. The first cause stays.
  void cancel(const Status& cause);
  // Blocks: ends the run with what cancel() was told.
  void end();
  // Blocks: nothing of the run is computed afterwards, and what it had is free.
  void release();

  // Other state of the job than its variables: queues, counters.
  bool keeps_more_than_variables() const;
  uint64_t turns() const;
  // See Run::tiles_done(); 0 of one that does not step, or is endless.
  uint64_t tiles_done() const;
  // Is a step in flight that is to end by itself? Not in an endless run.
  bool stepping() const;
  // Blocks until no allowed step is unfinished, or the run has failed. Not for an endless run: it
  // writes no variables.
  Status settle(Deadline deadline) const;
  std::string waits_for() const;
  // Nothing is computed before a value of a peer has come, or has been taken by one.
  bool waits_for_peer() const;
  std::string profile() const;
  // As TurnLog::take().
  bool take_report(RunReport& report, size_t most);

 private:
  // What there is once it is connected.
  struct Live {
    std::shared_ptr<HostedPartition> run;
    std::vector<Link*> links;  // the run's
    std::shared_ptr<TurnLog> log;
  };
  Result<std::shared_ptr<const Live>> live() const;
  std::shared_ptr<const Live> live_or_null() const;

  Result<std::shared_ptr<const Plan>> decode(const Bytes& bytes) const;
  Status check(const RunSetup& setup, const Plan& plan) const;
  Status bind(const RunSetup& setup);
  Status bind_worker(const RunSetup& setup, const std::string& root, RunLinks::Links links,
                     Deadline deadline);
  Result<std::string> data_root(const std::string& name) const;
  Status set_feed(const Live& live, uint32_t index, const Bytes& value) const;
  void heed_links();
  void tell_of(const Live& live, const Link& link);
  bool derived(const Live& live, const Status& failure) const;
  std::string subject() const { return cat("run ", id_); }

  RunnerParts& parts_;
  ControlThreads::Strand strand_;
  const RunnerAssembly assembly_;
  const uint64_t id_;
  const uint32_t partition_;
  const Sha256Digest digest_;  // of the plan's bytes

  mutable std::mutex mutex_;
  std::shared_ptr<HostedPartition> prepared_;
  std::unique_ptr<RunLinks> links_;   // while connecting, and after
  std::shared_ptr<const Live> live_;  // connected
  Status connected_;                  // why not, once links_ is there
  Status cause_;                      // of cancel()
  std::set<std::string> told_of_;     // peers whose links have failed
  bool released_ = false;
  uint64_t wanted_ = 0;  // the steps below may be done, if the gate lets them
  uint64_t gate_ = std::numeric_limits<uint64_t>::max();
  bool more_than_variables_ = false;
  uint64_t final_turns_ = 0;  // of a released run
};

// The directory of a data set: by its name in the configuration, by the very path that a name there
// stands for, or as an absolute path below what "/" maps. invalid_argument if it is none of these.
Result<std::string> find_dataset(const RunnerConfig& config, const std::string& name);

}  // namespace leat
