#include "daemon/hosts/local_host.h"

#include "ops/data/saved_files.h"
#include "transport/local/local_channel.h"

namespace leat {
namespace {

// One partition of a run on a host of this process.
class LocalRun final : public PartitionRun {
 public:
  LocalRun(DeviceHost& worker, VariableSnapshot& snapshot, std::shared_ptr<HostedPartition> run,
           std::string job, RecordedSteps* recorded)
      : worker_(worker),
        snapshot_(snapshot),
        run_(std::move(run)),
        job_(std::move(job)),
        recorded_(recorded) {}
  ~LocalRun() override { stop(); }

  // Peers of this process push straight into the slots, so the endpoint needs no address.
  Endpoint endpoint() const override {
    Endpoint endpoint;
    endpoint.slots = &run_->slots();
    return endpoint;
  }

  void connect(std::span<const Endpoint> peers, const RunOptions& options) override {
    // In one process nothing has to be waited for. The outcome is kept for connected(), where the
    // caller looks for it.
    connected_ = bind(peers, options);
  }
  Status connected() override { return connected_; }

  Status feed(uint32_t i, const Tensor& value) override { return run_->run().set_feed(i, value); }
  void extend(uint64_t limit) override { worker_.extend(*run_, limit); }
  Result<uint64_t> hold() override { return worker_.hold(*run_); }
  void fence(uint64_t limit) override { worker_.fence(*run_, limit); }
  bool snapshot_in_passing(uint64_t step, const std::vector<std::string>& names) override {
    // A failure of the copy is found by the reader of the snapshot, which finds none of that step.
    const auto take = [this, step, names] {
      (void)snapshot_.take(worker_.all_resources(job_), static_cast<int64_t>(step), names);
    };
    return worker_.between_steps(*run_, step, take).ok();
  }
  void renumber(uint64_t step) override { run_->run().renumber(step); }
  Timeline& finished() override { return run_->run().finished(); }
  const void* fetched(uint32_t i, uint64_t step) override {
    return run_->run().fetched_data(i, step);
  }
  void abort(const Status& cause) override {
    // Before connect() there is no run yet that could fail.
    if (run_->connected()) run_->run().abort(cause);
  }
  void stop() override {
    if (recorded_ != nullptr) recorded_->finish(*run_);
    worker_.release(*run_);
  }
  InputNumbers input() const override {
    const RunWork work = run_->run().work();
    return {std::chrono::duration<double>(work.input_wait).count(), work.steps_ahead};
  }
  std::string waits_for() override { return worker_.waits_for(*run_); }
  std::string profile() override { return profile_text(run_->run().program()); }

 private:
  // Makes a channel to each partition that gets a value of this one, then starts the run. The limit
  // of the run is still 0, so no step begins.
  Status bind(std::span<const Endpoint> peers, const RunOptions& options) {
    std::vector<std::unique_ptr<Channel>> channels(peers.size());
    for (const PlanEdge& edge : run_->plan().edges) {
      if (edge.from == run_->partition() && !channels[edge.to])
        channels[edge.to] = std::make_unique<local::LocalChannel>(*peers[edge.to].slots);
    }
    LEAT_RETURN_IF_ERROR(worker_.connect(*run_, std::move(channels), job_, options));
    if (recorded_ != nullptr && options.trains) recorded_->begin(worker_, run_);
    worker_.start(*run_);
    return {};
  }

  DeviceHost& worker_;
  VariableSnapshot& snapshot_;
  std::shared_ptr<HostedPartition> run_;
  std::string job_;
  RecordedSteps* const recorded_;  // may be null
  Status connected_;
};

}  // namespace

bool are_local(const HostHandle& a, const HostHandle& b) {
  return dynamic_cast<const LocalHost*>(&a) && dynamic_cast<const LocalHost*>(&b);
}

void LocalHost::set_data_root(const std::string& job, const std::string& root) {
  for (JobResources* table : worker_.all_resources(job)) table->set_data_root(root);
}

void set_save_folder(const std::vector<HostHandle*>& hosts, const std::string& job,
                     const std::string& folder) {
  for (HostHandle* host : hosts) {
    if (auto* local = dynamic_cast<LocalHost*>(host)) local->set_save_folder(job, folder);
  }
}

void LocalHost::set_save_folder(const std::string& job, const std::string& folder) {
  set_saved_files(worker_.resources(job), saved_files_in(files_, folder));
}

Result<DatasetReport> LocalHost::inspect(const DatasetFiles& files, const ClassCheck& check) {
  return report_dataset(files_, files, check);
}

Result<std::unique_ptr<PartitionRun>> LocalHost::prepare(std::shared_ptr<const Plan> plan,
                                                         uint32_t partition, const std::string& job,
                                                         uint64_t) {
  // The slots are open before any partition connects: a peer may push as soon as it steps.
  LEAT_ASSIGN_OR_RETURN(auto run, worker_.prepare(std::move(plan), partition));
  LEAT_RETURN_IF_ERROR(worker_.open_slots(*run));
  return std::unique_ptr<PartitionRun>(
      new LocalRun(worker_, snapshot_, std::move(run), job, recorded_.get()));
}

Result<std::map<std::string, Tensor>> LocalHost::read_variables(const std::string& job) {
  return leat::read_variables(worker_.all_resources(job));
}

Result<std::map<std::string, Tensor>> LocalHost::lend_variables(const std::string& job) {
  return leat::lend_variables(worker_.all_resources(job));
}

Status LocalHost::write_variables(const std::string& job,
                                  const std::map<std::string, Tensor>& values, Restore what,
                                  std::optional<uint64_t> step) {
  return leat::write_variables(worker_.all_resources(job), values, what, step);
}

Result<Held> LocalHost::held(const std::string& job) { return held_by(worker_.all_resources(job)); }

Status LocalHost::take_snapshot(const std::string& job, int64_t step,
                                const std::vector<std::string>& names) {
  return snapshot_.take(worker_.all_resources(job), step, names);
}

Status LocalHost::lend_snapshot(const std::string& job, int64_t step,
                                const std::vector<std::string>& names) {
  return snapshot_.lend(worker_.all_resources(job), step, names);
}

Status LocalHost::read_snapshot(int64_t step, const TakeBytes& take, const std::stop_token& stop) {
  LEAT_ASSIGN_OR_RETURN(const auto values, snapshot_.read(step));
  // The stop is looked at between two pieces.
  return format_part(*values, step, [&](std::span<const std::byte> piece) {
    return stop.stop_requested() ? cancelled("a snapshot is not wanted any more") : take(piece);
  });
}

Result<CheckpointPart> LocalHost::write_snapshot(int64_t, const PartPlace&,
                                                 const std::stop_token&) {
  return unimplemented("a worker of the master's process leaves writing to it");
}

}  // namespace leat
