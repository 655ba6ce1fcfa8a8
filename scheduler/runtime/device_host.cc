#include "scheduler/runtime/device_host.h"

#include "devices/base/text.h"

namespace leat {

namespace {

// The full name of the one device that a host has.
std::string device_of(int task) { return cat("job:worker/task:", task, "/cpu:0"); }

}  // namespace

DeviceHost::DeviceHost(int task, int threads)
    : device_name_(device_of(task)),
      device_(0, threads),
      executor_(device_.pool(), cat("driver/", task)) {}

DeviceHost::~DeviceHost() = default;

void DeviceHost::become(int task) { device_name_ = device_of(task); }

// The state outlives the runs of a job: a recovery steps on with the variables that are here.
JobResources& DeviceHost::resources(const std::string& job, const std::string& data_root) {
  std::lock_guard lock(mutex_);
  auto& table = jobs_[job];
  if (!table) {
    table = std::make_unique<JobResources>(device_);
    table->set_data_root(data_root);
  }
  return *table;
}

void DeviceHost::drop(const std::string& job) {
  std::lock_guard lock(mutex_);
  jobs_.erase(job);
}

// The table of slots comes first: the code that makes the links fills it before there are channels.
std::shared_ptr<HostedPartition> DeviceHost::prepare(std::shared_ptr<const Plan> plan,
                                                     uint32_t partition) {
  auto run = std::make_shared<HostedPartition>(std::move(plan), partition);
  run->slots_ = std::make_unique<SlotTable>(run->plan().edges.size());
  return run;
}

Status DeviceHost::open_slots(HostedPartition& run, const std::vector<bool>& from) {
  const std::vector<PlanEdge>& edges = run.plan().edges;
  for (uint32_t e = 0; e < edges.size(); ++e) {
    // Slots of values from other peers are opened by the links to those.
    if (edges[e].to == run.partition() && (from.empty() || from[edges[e].from]))
      LEAT_RETURN_IF_ERROR(run.slots().open(e, edges[e].bytes, device_));
  }
  return {};
}

Status DeviceHost::connect(HostedPartition& run, std::vector<std::unique_ptr<Channel>> channels,
                           const std::string& job, RunOptions options) {
  run.channels_ = std::move(channels);
  // The run borrows the program, the program borrows slots and channels, and all of them belong to
  // `run`. Its members are destroyed in the opposite order.
  Exchange exchange;
  exchange.slots = run.slots_.get();
  for (auto& channel : run.channels_) exchange.channels.push_back(channel.get());
  LEAT_ASSIGN_OR_RETURN(run.program_,
                        Program::create(*run.plan_, run.partition_, device_, resources(job),
                                        std::move(exchange), options.profile));
  run.run_ = std::make_unique<Run>(*run.program_, device_.pool(), std::move(options));
  return {};
}

void DeviceHost::start(HostedPartition& run) { executor_.add(run.run()); }

// The limit rises before the wake, so that the executor finds something to do.
void DeviceHost::extend(HostedPartition& run, uint64_t limit) {
  run.run().extend(limit);
  executor_.wake(run.run());
}

void DeviceHost::fence(HostedPartition& run, uint64_t limit) {
  run.run().fence(limit);
  executor_.wake(run.run());
}

Status DeviceHost::between_steps(HostedPartition& run, uint64_t step,
                                 std::function<void()> between) {
  LEAT_RETURN_IF_ERROR(run.run().between_steps(step, std::move(between)));
  executor_.wake(run.run());  // it may be there
  return {};
}

void DeviceHost::release(HostedPartition& run) {
  // A partition that was never connected has no run to remove.
  if (run.run_) executor_.remove(run.run());
}

}  // namespace leat
