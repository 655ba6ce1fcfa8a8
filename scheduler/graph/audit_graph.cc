#include "scheduler/graph/audit_graph.h"

#include <map>
#include <utility>

#include "devices/base/text.h"
#include "ops/graph/builder.h"
#include "ops/graph/op.h"
#include "scheduler/graph/op_name.h"

namespace leat {
namespace {

// Kinds of values, as the attribute `of` of their digests names them.
constexpr const char* kGradient = "gradient";
constexpr const char* kShare = "share";  // any other
constexpr const char* kSum = "sum";
constexpr const char* kVariable = "variable";

std::string variable_of(const Graph& graph, ValueId resource) {
  return attr_string(graph.node(graph.value(resource).producer).attrs, "name");
}

// The name of a sum: its own, or that of the variable that it is written to.
std::string name_of_sum(const Graph& graph, ValueId sum, const std::vector<NodeId>& readers) {
  if (!graph.value_name(sum).empty()) return graph.value_name(sum);
  for (const NodeId id : readers) {
    const Node& node = graph.node(id);
    if (!node.op->writes.empty()) return cat("statistic ", variable_of(graph, node.inputs[0]));
  }
  return graph.describe_node(graph.value(sum).producer);
}

ValueId add_digest(GraphBuilder& g, ValueId value, const char* kind) {
  return g.op("leat.Digest", {value}, {{"of", std::string(kind)}});
}

// Fetches the digests, one row of them for each replica.
Status fetch_digests(GraphBuilder& g, const std::vector<ValueId>& digests, int64_t replicas,
                     AuditGraph& audit) {
  const ValueId row = g.op("Concat", digests, {{"axis", int64_t{0}}});
  const ValueId all = g.op("leat.AllGather", {row}, {{"axis", int64_t{0}}, {"replicas", replicas}});
  audit.fetch = static_cast<uint32_t>(audit.job.fetches.size());
  audit.job.fetches.push_back(g.named(all, "digests"));
  return g.status().while_doing("adding the digests");
}

}  // namespace

Result<AuditGraph> make_audited_train_graph(const Graph& model, const TrainSpec& spec) {
  LEAT_ASSIGN_OR_RETURN(JobGraph job, make_train_graph(model, spec));
  AuditGraph audit{std::move(job), 0, {}};
  Graph& graph = audit.job.graph;
  LEAT_ASSIGN_OR_RETURN(const auto order, graph.topological_order());
  const auto readers = graph.consumers();
  GraphBuilder g(graph);
  std::vector<ValueId> digests;
  for (const NodeId id : order) {
    if (!is_op(graph.node(id), "leat.AllReduce")) continue;
    const ValueId share = graph.node(id).inputs[0], sum = graph.node(id).outputs[0];
    const std::string name = name_of_sum(graph, sum, readers[sum]);
    audit.values.push_back({name, false});
    digests.push_back(add_digest(g, share, name.starts_with("gradient of ") ? kGradient : kShare));
    audit.values.push_back({name, true});
    digests.push_back(add_digest(g, sum, kSum));
  }
  LEAT_RETURN_IF_ERROR(fetch_digests(g, digests, spec.shards, audit));
  return audit;
}

Result<AuditGraph> make_step_audit_graph(const Graph& model, const TrainSpec& spec) {
  LEAT_ASSIGN_OR_RETURN(AuditGraph audit, make_audited_train_graph(model, spec));
  audit.job.fetches = {audit.job.fetches[audit.fetch]};
  audit.job.targets.clear();
  audit.fetch = 0;
  return audit;
}

Result<AuditGraph> make_variable_audit_graph(const Graph& model, const TrainSpec& spec,
                                             const std::set<std::string>& held, int64_t workers) {
  LEAT_ASSIGN_OR_RETURN(JobGraph job, make_train_graph(model, spec));
  AuditGraph audit{std::move(job), 0, {}};
  audit.job.fetches.clear();
  audit.job.targets.clear();
  Graph& graph = audit.job.graph;
  std::map<std::string, ValueId> variables;
  for (NodeId id = 0; id < graph.nodes(); ++id) {
    const Node& node = graph.node(id);
    if (!is_op(node, "leat.Variable")) continue;
    const std::string name = attr_string(node.attrs, "name");
    if (held.contains(name)) variables.emplace(name, node.outputs[0]);
  }
  GraphBuilder g(graph);
  std::vector<ValueId> digests;
  for (const auto& [name, variable] : variables) {
    audit.values.push_back({cat("variable ", name), false});
    digests.push_back(add_digest(g, g.op("leat.Read", {variable}), kVariable));
  }
  LEAT_RETURN_IF_ERROR(fetch_digests(g, digests, workers, audit));
  return audit;
}

}  // namespace leat
