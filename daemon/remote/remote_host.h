// A runner on another machine, or in another process of this one, as the master's link: everything
// goes over wire::Runner of daemon/wire/cluster.capnp. wire_remote_runner.h makes one.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "daemon/hosts/host_handle.h"
#include "daemon/spec/chaos_fault.h"
#include "devices/base/status.h"

namespace leat {

// What is known of a runner once it has registered.
struct RunnerFacts {
  std::string node;  // its worker's name: what messages say
  std::string job;   // the master's id
  uint64_t assembly = 0;
  uint32_t task = 0;
  uint64_t incarnation = 0;
  std::string device_name;  // "job:worker/task:2/cpu:0"
  uint64_t memory_bytes = 0;
  uint32_t threads = 0;
  std::string data_address;  // of its worker
  std::string machine;
  std::string unix_address;
};

class RunnerChannel;
struct AssemblyRuns;

// One registered runner. A runner has one job, so that the names of jobs that HostHandle takes tell
// nothing here.
//
// Failure: the first error of any partition of a run that is not the consequence of another one's
// ends the run on all of them, at once; one that is waits 200 ms for its cause. Calls fail with
// `unavailable`, naming the node, when the runner is lost; with deadline_exceeded when it does not
// answer. What was sent is given back by the runner's end, or by its next assembly.
//
// Threads: as HostHandle says; never the rpc loop's. The loop outlives it.
class RemoteHost final : public HostHandle {
 public:
  // See make_remote_host().
  explicit RemoteHost(std::shared_ptr<RunnerChannel> channel);
  ~RemoteHost() override;

  const RunnerFacts& facts() const;
  // Ends its runs and all calls, now and later, with this cause, which is made `unavailable` and
  // names the node. The first cause stays. Threads: any, the loop's among them.
  void lost(const Status& cause);
  // Ok until then. Threads: any.
  Status status() const;

  std::string name() const override { return facts().node; }
  std::string device_name() const override;
  uint64_t memory_bytes() const override;
  void set_data_root(const std::string& job, const std::string& root) override;
  Result<DatasetReport> inspect(const DatasetFiles& files, int64_t classes) override;
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

  // Runner.arm: the faults that it brings upon itself; `ran`: for how long the job has run.
  Status arm(const std::vector<ArmedFault>& faults, std::chrono::milliseconds ran);

  // What its runs share with those of the other runners. Called once, by the cluster.
  void join(std::shared_ptr<AssemblyRuns> assembly);
  const std::shared_ptr<RunnerChannel>& channel() const { return channel_; }

 private:
  const std::shared_ptr<RunnerChannel> channel_;
  std::shared_ptr<AssemblyRuns> assembly_;
  std::string data_root_;
};

}  // namespace leat
