#include "daemon/session/step_plan.h"

#include <algorithm>
#include <map>

#include "devices/base/text.h"
#include "ops/graph/op.h"
#include "scheduler/graph/device_name.h"
#include "scheduler/graph/prune.h"

namespace leat {
namespace {

// The name of a resource in its job: two kinds of resources may have equal names.
std::string home_key(const OpDef& op, const Attrs& attrs) {
  return cat(op.full_name(), " '", attr_string(attrs, "name"), "'");
}

// A variable is one variable, whatever part of the graph a step runs: it stays where it was made.
Status keep_homes(Graph& graph, const SessionJob& job) {
  for (NodeId id = 0; id < graph.nodes(); ++id) {
    Node& node = graph.node(id);
    // Only the node that makes the resource is placed; those that use it follow.
    if (!node.op->make_resource) continue;
    const auto home = job.homes.find(home_key(*node.op, node.attrs));
    if (home == job.homes.end()) continue;
    if (!matches_device(node.device, home->second)) {
      return failed_precondition(cat(graph.describe_node(id), ": expected to stay on ",
                                     home->second,
                                     ", where the job has it, received the "
                                     "constraint '",
                                     node.device, "'"));
    }
    node.device = home->second;
  }
  return {};
}

// The first plan that has a resource decides; emplace() keeps its choice.
void note_homes(const Plan& plan, SessionJob& job) {
  for (const Partition& partition : plan.partitions) {
    for (const PlanResource& resource : partition.resources)
      job.homes.emplace(home_key(*resource.op, resource.attrs), partition.device);
  }
}

// The variables that a step touches, and whether it touches a queue or another resource that makes
// steps wait for each other.
class Uses {
 public:
  explicit Uses(SessionJob& job) : job_(job) {}

  void add(const Partition& partition) {
    for (const PlanInstruction& instruction : partition.instructions) {
      for (size_t i = 0; i < instruction.inputs.size(); ++i) {
        if (instruction.inputs[i] == kNone) continue;
        const PlanValue& value = partition.values[instruction.inputs[i]];
        // Other values live for one step, so no other step sees them.
        if (value.home != Home::resource) continue;
        // A queue, for example: it has no dtype, and its ops may wait for another step.
        if (value.type.dtype == DType::invalid) {
          may_wait_ = true;
          continue;
        }
        // An instruction without an op moves a value, and only reads.
        const auto& writes = instruction.op ? instruction.op->writes : std::vector<int>();
        const bool write =
            std::find(writes.begin(), writes.end(), static_cast<int>(i)) != writes.end();
        bool& written = written_[number(partition, value.index)];
        written = written || write;
      }
    }
  }

  std::vector<VariableUse> list() const {
    std::vector<VariableUse> out;
    for (const auto& [variable, written] : written_) out.push_back({variable, written});
    // A step that waits for another one must not hold a ticket: the other may need the same
    // variable, and neither would end.
    return may_wait_ ? std::vector<VariableUse>() : out;
  }

 private:
  uint32_t number(const Partition& partition, uint32_t resource) {
    return job_.tickets.number(cat("variable '",
                                   attr_string(partition.resources[resource].attrs, "name"),
                                   "' on ", partition.device));
  }

  SessionJob& job_;
  std::map<uint32_t, bool> written_;
  bool may_wait_ = false;
};

}  // namespace

Result<StepPlan> make_step_plan(HostGroup& hosts, SessionJob& job, const Graph& graph,
                                Borders borders, std::span<const Tensor> feeds,
                                const StepPlanOptions& options) {
  LEAT_ASSIGN_OR_RETURN(Graph pruned, prune(graph, borders));
  for (size_t i = 0; i < feeds.size(); ++i)
    // The plan is made for these very shapes, so all sizes in it are known.
    pruned.value(borders.feeds[i]).type.shape = feeds[i].shape();
  // Other strategies place the variables themselves, on several devices.
  const bool one = options.plan.strategy == "single" && options.plan.shards == 1;
  if (one) LEAT_RETURN_IF_ERROR(keep_homes(pruned, job));
  const JobGraph request{std::move(pruned), borders.targets, borders.feeds, borders.fetches};
  StepPlan made;
  LEAT_ASSIGN_OR_RETURN(made.plan, hosts.compile(request, options.plan));
  if (one) note_homes(*made.plan, job);
  if (options.isolated) {
    Uses uses(job);
    for (const Partition& partition : made.plan->partitions) uses.add(partition);
    made.uses = uses.list();
  }
  return made;
}

}  // namespace leat
