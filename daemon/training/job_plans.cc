#include "daemon/training/job_plans.h"

#include <algorithm>
#include <utility>

#include "devices/base/text.h"
#include "scheduler/graph/device_name.h"
#include "scheduler/graph/op_name.h"

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
  options.tf32 = job.tf32;
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
Status JobPlans::note_holder(const std::string& name, const std::string& device) {
  // A replicated strategy puts each variable on one device of every host; others on one of all.
  const std::string task = task_of(device);
  const std::string among = parts_.rules.replicated ? task : "";
  const auto [it, first] = device_of_.try_emplace({among, name}, device);
  holds_[task].insert(name);
  part_of_.try_emplace(name, short_name(device));
  if (first || it->second == device) return {};
  return invalid_argument(cat("variable '", name, "': expected one device, it is on ", it->second,
                              " and on ", device,
                              "; constrain its Variable and Initialize nodes as well"));
}

// Binds the variables that earlier plans have placed to the devices that they are on, where a host
// has several.
void JobPlans::keep_devices(Graph& graph) const {
  for (NodeId id = 0; id < graph.nodes(); ++id) {
    Node& node = graph.node(id);
    if (!is_op(node, "leat.Variable")) continue;
    const auto found = part_of_.find(attr_string(node.attrs, "name"));
    if (found == part_of_.end()) continue;
    node.device = node.device.empty() ? found->second : cat(node.device, "/", found->second);
  }
}

Result<JobPlans::SharedPlan> JobPlans::compile(HostGroup& group, JobGraph graph,
                                               const PlanOptions& options) {
  const auto& hosts = group.hosts();
  const bool choice = std::any_of(hosts.begin(), hosts.end(),
                                  [](HostHandle* host) { return host->devices().size() > 1; });
  if (choice) keep_devices(graph.graph);
  LEAT_ASSIGN_OR_RETURN(auto plan, group.compile(std::move(graph), options));
  for (const Partition& partition : plan->partitions) {
    for (const PlanResource& resource : partition.resources) {
      // Queues and other resources are not part of a checkpoint.
      if (resource.op->full_name() != "leat.Variable") continue;
      LEAT_RETURN_IF_ERROR(note_holder(resource.name, partition.device));
      bytes_[resource.name] = resource.bytes;
    }
  }
  return plan;
}

Result<JobPlans::SharedPlan> JobPlans::compile(JobGraph graph, const std::string& what,
                                               int64_t shards) {
  return compile(parts_.hosts, std::move(graph), options(what, shards));
}

Result<JobPlans::SharedPlan> JobPlans::compile_on(HostGroup& hosts, JobGraph graph,
                                                  const std::string& what, int64_t shards) {
  return compile(hosts, std::move(graph), options(what, shards));
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
    LEAT_ASSIGN_OR_RETURN(auto plan, compile(parts_.hosts, std::move(graph), each));
    plans.push_back(std::move(plan));
    return plans;
  }
  if (mode == StepMode::quorum) {
    LEAT_ASSIGN_OR_RETURN(auto plan, compile(parts_.hosts, graph, each));
    plans.push_back(std::move(plan));
  }
  for (int w = 0; w < static_cast<int>(parts_.workers); ++w) {
    each.name = cat(parts_.job.name, "/train ", w);
    // These plans differ in their names and in this number only.
    (mode == StepMode::quorum ? each.quorum.replica : each.asynchronous_worker) = w;
    LEAT_ASSIGN_OR_RETURN(auto plan, compile(parts_.hosts, graph, each));
    plans.push_back(std::move(plan));
  }
  return plans;
}

Status JobPlans::compile() {
  // Training comes first: it uses variables in more ways than any other plan, and decides on which
  // device of a host they are.
  LEAT_ASSIGN_OR_RETURN(training_, compile_training());
  return make_init(parts_.input.model.training);
}

Status JobPlans::make_init(const Graph& model) {
  LEAT_ASSIGN_OR_RETURN(JobGraph graph, make_init_graph(model, parts_.spec));
  // A graph without targets has no variables to fill.
  if (!graph.targets.empty()) {
    LEAT_ASSIGN_OR_RETURN(init_, compile(std::move(graph), "init", parts_.rules.common_shards));
  }
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
  const auto found = holds_.find(host.task());
  return found == holds_.end() ? kNone : found->second;
}

std::set<std::string> JobPlans::held_by_any() const {
  std::set<std::string> all;
  for (const auto& [task, names] : holds_) all.insert(names.begin(), names.end());
  return all;
}

std::vector<CheckpointShare> JobPlans::shares() const {
  return share_out(parts_.hosts.hosts(), holds_, bytes_);
}

}  // namespace leat
