// A host in this process, driven through the same interface as remote hosts.
#pragma once

#include "daemon/hosts/host_handle.h"
#include "daemon/hosts/recorded_steps.h"
#include "daemon/hosts/variable_snapshot.h"
#include "scheduler/runtime/device_host.h"

namespace leat {

// True if both hosts are in this process, and so see the same data sets.
bool are_local(const HostHandle& a, const HostHandle& b);

// Sets the folder below which graphs of the job save files (leat.Save) on those hosts that are in
// this process. Only the first call for a job counts, and it comes before the job's first plan. The
// hosts of a cluster save such files in the job's folder on the master's machine.
void set_save_folder(const std::vector<HostHandle*>& hosts, const std::string& job,
                     const std::string& folder);

// Threads: as HostHandle says.
class LocalHost final : public HostHandle {
 public:
  // `worker` must outlive the handle, and the handle the runs that it makes; `files` must outlive
  // the handle. `recorded`: records steps of runs that train; may be null.
  explicit LocalHost(DeviceHost& worker, Files& files = real_files(),
                     std::shared_ptr<RecordedSteps> recorded = nullptr)
      : worker_(worker), files_(files), recorded_(std::move(recorded)) {}

  std::vector<PlanDevice> devices() const override { return worker_.plan_devices(); }
  // The functions of HostHandle, which run in this process.
  void set_data_root(const std::string& job, const std::string& root) override;
  // As the function of that name above.
  void set_save_folder(const std::string& job, const std::string& folder);
  Result<DatasetReport> inspect(const DatasetFiles& files, const ClassCheck& check) override;
  Result<std::unique_ptr<PartitionRun>> prepare(std::shared_ptr<const Plan> plan,
                                                uint32_t partition, const std::string& job,
                                                uint64_t run) override;
  Result<std::map<std::string, Tensor>> read_variables(const std::string& job) override;
  Result<std::map<std::string, Tensor>> lend_variables(const std::string& job) override;
  Status write_variables(const std::string& job, const std::map<std::string, Tensor>& values,
                         Restore what, std::optional<uint64_t> step) override;
  Result<Held> held(const std::string& job) override;
  Status take_snapshot(const std::string& job, int64_t step,
                       const std::vector<std::string>& names) override;
  Status lend_snapshot(const std::string& job, int64_t step,
                       const std::vector<std::string>& names) override;
  Status read_snapshot(int64_t step, const TakeBytes& take, const std::stop_token& stop) override;
  void drop_snapshot() override { snapshot_.drop(); }
  // Always unimplemented: the snapshot is already in the master's process, which writes it.
  Result<CheckpointPart> write_snapshot(int64_t step, const PartPlace& place,
                                        const std::stop_token& stop) override;

 private:
  DeviceHost& worker_;
  Files& files_;
  const std::shared_ptr<RecordedSteps> recorded_;
  VariableSnapshot snapshot_;
};

}  // namespace leat
