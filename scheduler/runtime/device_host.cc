#include "scheduler/runtime/device_host.h"

#include <algorithm>

#include "devices/base/text.h"
#include "devices/core/lost_device.h"

namespace leat {

DeviceHost::DeviceHost(int task, int threads, std::vector<std::unique_ptr<Device>> accelerators)
    : task_(task), cpu_(0, threads), executor_(cpu_.pool(), cat("driver/", task)) {
  for (auto& device : accelerators) {
    const std::string driver = cat(device->name(), "/", task);
    accelerators_.push_back(std::make_unique<Accelerator>(std::move(device), driver));
  }
}

DeviceHost::~DeviceHost() = default;

std::string DeviceHost::device_name(size_t device) const {
  return cat("job:worker/task:", task_, "/",
             device == 0 ? cpu_.name() : accelerators_[device - 1]->device->name());
}

void DeviceHost::become(int task) { task_ = task; }

Device& DeviceHost::device(size_t number) {
  if (number == 0) return cpu_;
  return *accelerators_[number - 1]->device;
}

std::vector<PlanDevice> DeviceHost::plan_devices() {
  std::vector<PlanDevice> devices;
  for (size_t d = 0; d < this->devices(); ++d) {
    const Device& of = device(d);
    devices.push_back({device_name(d), std::string(of.kind()), of.memory_bytes(), of.alignment()});
  }
  return devices;
}

// The state outlives the runs of a job: a recovery steps on with the variables that are here.
JobResources& DeviceHost::resources(const std::string& job, size_t device) {
  std::lock_guard lock(mutex_);
  auto& table = jobs_[{job, device}];
  if (!table) table = std::make_unique<JobResources>(this->device(device));
  return *table;
}

std::vector<JobResources*> DeviceHost::all_resources(const std::string& job) {
  std::vector<JobResources*> all;
  for (size_t d = 0; d < devices(); ++d) all.push_back(&resources(job, d));
  return all;
}

void DeviceHost::drop(const std::string& job) {
  std::lock_guard lock(mutex_);
  for (size_t d = 0; d < devices(); ++d) jobs_.erase({job, d});
}

// The table of slots comes first: the code that makes the links fills it before there are channels.
Result<std::shared_ptr<HostedPartition>> DeviceHost::prepare(std::shared_ptr<const Plan> plan,
                                                             uint32_t partition) {
  const std::string& device = plan->partitions[partition].device;
  std::vector<std::string> names;
  for (size_t d = 0; d < devices(); ++d) names.push_back(device_name(d));
  const auto found = std::find(names.begin(), names.end(), device);
  if (found == names.end()) {
    // The name contains the task, so this also finds a plan that was meant for another host.
    return invalid_argument(cat("plan '", plan->name, "': partition ", partition, ": expected ",
                                join(names, " or "), ", it is for ", device));
  }
  auto run = std::make_shared<HostedPartition>(std::move(plan), partition,
                                               static_cast<size_t>(found - names.begin()));
  run->slots_ = std::make_shared<SlotTable>(run->plan().edges.size());
  return run;
}

Status DeviceHost::open_slots(HostedPartition& run, const std::vector<bool>& from) {
  const std::vector<PlanEdge>& edges = run.plan().edges;
  for (uint32_t e = 0; e < edges.size(); ++e) {
    // Slots of values from other peers are opened by the links to those.
    if (edges[e].to != run.partition() || (!from.empty() && !from[edges[e].from])) continue;
    Device& on = device(run.device());
    const Status opened = run.slots().open(e, edges[e].bytes, on);
    if (!opened.ok()) return as_loss_of(on, opened);
  }
  return {};
}

// The tables of two devices would each make one, and steps on one would not see the other.
Status DeviceHost::check_variables(const HostedPartition& run, const std::string& job) {
  for (const PlanResource& resource : run.plan_->partitions[run.partition_].resources) {
    for (size_t d = 0; d < devices(); ++d) {
      if (d == run.device() || !resources(job, d).find_variable(resource.name)) continue;
      return failed_precondition(cat("variable '", resource.name, "': expected it on ",
                                     device_name(d), ", where another plan of the job has it, '",
                                     run.plan_->name, "' has it on ", device_name(run.device())));
    }
  }
  return {};
}

Status DeviceHost::connect(HostedPartition& run, std::vector<std::unique_ptr<Channel>> channels,
                           const std::string& job, RunOptions options) {
  LEAT_RETURN_IF_ERROR(check_variables(run, job));
  run.channels_ = std::move(channels);
  // The run borrows the program, the program borrows slots and channels, and all of them belong to
  // `run`. Its members are destroyed in the opposite order.
  Exchange exchange;
  exchange.slots = run.slots_.get();
  for (auto& channel : run.channels_) exchange.channels.push_back(channel.get());
  Device& on = device(run.device());
  auto program = Program::create(*run.plan_, run.partition_, on, resources(job, run.device()),
                                 std::move(exchange), options.profile);
  if (!program.ok()) return as_loss_of(on, program.status());
  run.program_ = std::move(*program);
  run.run_ = std::make_unique<Run>(*run.program_, executor(run).pool(), std::move(options));
  return {};
}

void DeviceHost::start(HostedPartition& run) { executor(run).add(run.run()); }

// The limit rises before the wake, so that the executor finds something to do.
void DeviceHost::extend(HostedPartition& run, uint64_t limit) {
  run.run().extend(limit);
  executor(run).wake(run.run());
}

void DeviceHost::fence(HostedPartition& run, uint64_t limit) {
  run.run().fence(limit);
  executor(run).wake(run.run());
}

Status DeviceHost::between_steps(HostedPartition& run, uint64_t step,
                                 std::function<void()> between) {
  LEAT_RETURN_IF_ERROR(run.run().between_steps(step, std::move(between)));
  executor(run).wake(run.run());  // it may be there
  return {};
}

void DeviceHost::release(HostedPartition& run) {
  // A partition that was never connected has no run to remove.
  if (run.run_) executor(run).remove(run.run());
}

}  // namespace leat
