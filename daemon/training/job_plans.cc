#include "daemon/training/job_plans.h"

#include <utility>

#include "devices/base/text.h"

namespace leat {

PlanOptions JobPlans::options(const std::string& what, int64_t shards) const {
  const Job& job = parts_.job;
  PlanOptions options;
  options.name = job.name + "/" + what;
  options.strategy = job.strategy;
  options.shards = static_cast<int>(shards);
  options.workers = static_cast<int>(parts_.workers);
  options.servers = static_cast<int>(job.parameter_server.num_ps);
  options.variable_servers = servers_;
  return options;
}

// Chooses a server for each variable, the same in all graphs of the job.
Status JobPlans::spread() {
  if (!parts_.rules.spreads_variables || !servers_.empty()) return {};
  const Graph& model = parts_.input.model.training;
  // Both graphs are looked at, since the choice must be the same in each of them.
  LEAT_ASSIGN_OR_RETURN(const JobGraph init, make_init_graph(model, parts_.spec));
  LEAT_ASSIGN_OR_RETURN(const JobGraph train, make_train_graph(model, parts_.spec));
  servers_ = spread_variables({&init.graph, &train.graph},
                              static_cast<int>(parts_.job.parameter_server.num_ps));
  return {};
}

// The graphs are placed one by one, so one of them could put a variable where the others do not
// look for it.
Status JobPlans::check_one_holder() const {
  std::map<std::string, std::string> holder;
  for (const auto& [device, names] : holds_) {
    for (const std::string& name : names) {
      // A replicated strategy puts each variable on every host; compile() does not call this then.
      const auto [it, first] = holder.emplace(name, device);
      if (first) continue;
      return invalid_argument(cat("variable '", name, "': expected one device, it is on ",
                                  it->second, " and on ", device,
                                  "; constrain its Variable and Initialize nodes as well"));
    }
  }
  return {};
}

Result<JobPlans::SharedPlan> JobPlans::compile(JobGraph graph, const PlanOptions& options) {
  LEAT_ASSIGN_OR_RETURN(auto plan, parts_.hosts.compile(std::move(graph), options));
  for (const Partition& partition : plan->partitions) {
    for (const PlanResource& resource : partition.resources) {
      // Queues and other resources are not part of a checkpoint.
      if (resource.op->full_name() != "leat.Variable") continue;
      holds_[partition.device].insert(resource.name);
      bytes_[resource.name] = resource.bytes;
    }
  }
  if (!parts_.rules.replicated) LEAT_RETURN_IF_ERROR(check_one_holder());
  return plan;
}

Result<JobPlans::SharedPlan> JobPlans::compile(JobGraph graph, const std::string& what,
                                               int64_t shards) {
  return compile(std::move(graph), options(what, shards));
}

Result<std::vector<JobPlans::SharedPlan>> JobPlans::compile_training() {
  LEAT_RETURN_IF_ERROR(spread());
  LEAT_ASSIGN_OR_RETURN(JobGraph graph, make_train_graph(parts_.input.model.training, parts_.spec));
  const StepMode mode = parts_.rules.mode;
  PlanOptions each = options("train", parts_.job.shards);
  // Only a state that all hosts have after the same step can be continued from memory.
  each.recoverable = parts_.rules.has_common_steps();
  // A dynamic loss scale brings its own guard.
  each.skips_not_finite = parts_.skips() && !parts_.job.scales_loss_dynamically();
  std::vector<SharedPlan> plans;
  if (mode == StepMode::quorum) {
    const Job::ParameterServer& servers = parts_.job.parameter_server;
    each.quorum = {static_cast<int>(servers.replicas_to_aggregate),
                   servers.dropped_samples == Job::DroppedSamples::requeue};
  }
  if (mode == StepMode::together) {
    LEAT_ASSIGN_OR_RETURN(auto plan, compile(std::move(graph), each));
    plans.push_back(std::move(plan));
    return plans;
  }
  if (mode == StepMode::quorum) {
    LEAT_ASSIGN_OR_RETURN(auto plan, compile(graph, each));
    plans.push_back(std::move(plan));
  }
  for (int w = 0; w < static_cast<int>(parts_.workers); ++w) {
    each.name = cat(parts_.job.name, "/train ", w);
    // These plans differ in their names and in this number only.
    (mode == StepMode::quorum ? each.quorum.replica : each.asynchronous_worker) = w;
    LEAT_ASSIGN_OR_RETURN(auto plan, compile(graph, each));
    plans.push_back(std::move(plan));
  }
  return plans;
}

Status JobPlans::compile() {
  LEAT_RETURN_IF_ERROR(spread());
  {
    LEAT_ASSIGN_OR_RETURN(JobGraph graph,
                          make_init_graph(parts_.input.model.training, parts_.spec));
    // A graph without targets has no variables to fill.
    if (!graph.targets.empty()) {
      LEAT_ASSIGN_OR_RETURN(init_, compile(std::move(graph), "init", parts_.rules.common_shards));
    }
  }  // the graph's memory is free before the next one is made
  LEAT_ASSIGN_OR_RETURN(training_, compile_training());
  return {};
}

bool JobPlans::training_makes_variables() const {
  // Both plans make a variable on the hosts when they are registered. If training makes all of
  // them, a start from memory needs no run of init().
  std::set<std::pair<std::string, std::string>> made;  // by device
  for (const auto& plan : training_) {
    for (const Partition& partition : plan->partitions) {
      for (const PlanResource& resource : partition.resources)
        made.emplace(partition.device, resource.name);
    }
  }
  for (const Partition& partition : init_->partitions) {
    for (const PlanResource& resource : partition.resources) {
      if (!made.contains({partition.device, resource.name})) return false;
    }
  }
  return true;
}

const std::set<std::string>& JobPlans::held_by(const HostHandle& host) const {
  static const std::set<std::string> kNone;
  const auto found = holds_.find(host.device_name());
  return found == holds_.end() ? kNone : found->second;
}

std::set<std::string> JobPlans::held_by_any() const {
  std::set<std::string> all;
  for (const auto& [device, names] : holds_) all.insert(names.begin(), names.end());
  return all;
}

std::vector<CheckpointShare> JobPlans::shares() const {
  return share_out(parts_.hosts.hosts(), holds_, bytes_);
}

}  // namespace leat
