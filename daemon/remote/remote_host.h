// A runner in another process, on this machine or another one, as the master drives it. All calls
// go over wire::Runner of daemon/wire/cluster.capnp. make_remote_host() in wire_remote_host.h makes
// one.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "daemon/hosts/host_handle.h"
#include "daemon/spec/chaos_fault.h"
#include "daemon/wire/runner_info.h"
#include "devices/base/status.h"

namespace leat {

// The facts that a runner reports when it registers, with those of its worker.
struct RunnerFacts : RunnerInfo {
  std::string node;          // the worker's name, for messages
  std::string data_address;  // of the worker
  std::string machine;
};

class RunnerChannel;
struct AssemblyRuns;

// One registered runner. It ignores the names of jobs that HostHandle's functions take, because a
// runner has only one job.
//
// Failure: an error of one partition ends the run on all partitions at once, unless it is the
// consequence of another partition's error; then it waits 200 ms for that cause. If the runner is
// lost, calls fail with `unavailable` and the node's name; if it does not answer, with
// deadline_exceeded. After such a failure, the end of the runner or its next assembly frees what
// the call may have allocated there.
//
// Threads: as HostHandle says, but never the rpc loop's. The loop must outlive it.
class RemoteHost final : public HostHandle {
 public:
  // Called by make_remote_host().
  explicit RemoteHost(std::shared_ptr<RunnerChannel> channel);
  ~RemoteHost() override;

  const RunnerFacts& facts() const;
  // Ends its runs and all its calls, also later ones, with this cause. The error becomes
  // `unavailable` and names the node. Only the first cause counts. Threads: any, including the
  // loop's.
  void lost(const Status& cause);
  // Ok until lost() was called; then its error. Threads: any.
  Status status() const;

  std::string name() const override { return facts().node; }
  std::vector<PlanDevice> devices() const override;
  void set_data_root(const std::string& job, const std::string& root) override;
  Result<DatasetReport> inspect(const DatasetFiles& files, const ClassCheck& check) override;
  Result<std::unique_ptr<PartitionRun>> prepare(std::shared_ptr<const Plan> plan,
                                                uint32_t partition, const std::string& job,
                                                uint64_t run) override;
  Result<std::map<std::string, Tensor>> read_variables(const std::string& job) override;
  Status write_variables(const std::string& job, const std::map<std::string, Tensor>& values,
                         Restore what, std::optional<uint64_t> step) override;
  Result<Held> held(const std::string& job) override;
  Status take_snapshot(const std::string& job, int64_t step,
                       const std::vector<std::string>& names) override;
  Status read_snapshot(int64_t step, const TakeBytes& take, const std::stop_token& stop) override;
  Result<CheckpointPart> write_snapshot(int64_t step, const PartPlace& place,
                                        const std::stop_token& stop) override;

  // Calls Runner.arm: gives the runner the faults that it causes in itself. `ran` is the time that
  // the job has run so far.
  Status arm(const std::vector<ArmedFault>& faults, std::chrono::milliseconds ran);

  // Sets the state that its runs share with those of the other runners. make_remote_hosts() calls
  // it once.
  void join(std::shared_ptr<AssemblyRuns> assembly);
  const std::shared_ptr<RunnerChannel>& channel() const { return channel_; }

 private:
  const std::shared_ptr<RunnerChannel> channel_;
  std::shared_ptr<AssemblyRuns> assembly_;
  std::string data_root_;
};

}  // namespace leat
