#include "scheduler/graph/program_graph.h"

#include <algorithm>
#include <utility>

#include "devices/base/text.h"
#include "ops/graph/builder.h"
#include "ops/graph/op.h"
#include "scheduler/graph/op_name.h"
#include "scheduler/graph/read_batch.h"

namespace leat {
namespace {

std::vector<std::string> all_names(const Graph& graph) {
  std::vector<std::string> names;
  for (NodeId id = 0; id < graph.nodes(); ++id) names.push_back(graph.node(id).name);
  for (ValueId value = 0; value < graph.values(); ++value) names.push_back(graph.value_name(value));
  std::erase(names, "");
  return names;
}

Status unknown(const Graph& graph, std::string_view key, const std::string& name,
               std::string_view expected) {
  return invalid_argument(cat("program.", key, ": expected the name of ", expected, ", received '",
                              name, "'", did_you_mean(name, all_names(graph))));
}

Result<ValueId> value_named(const Graph& graph, const std::string& name) {
  for (ValueId value = 0; value < graph.values(); ++value) {
    if (graph.value_name(value) == name) return value;
  }
  return unknown(graph, "fetch", name, "a value of the graph");
}

// All that a step does, unless the program says so: every write and every other node that is there
// for its effect, but for those that happen once.
std::vector<NodeId> all_effects(const Graph& graph, const std::vector<NodeId>& once) {
  std::vector<NodeId> nodes;
  for (NodeId id = 0; id < graph.nodes(); ++id) {
    const Node& node = graph.node(id);
    const bool any_output = std::any_of(node.outputs.begin(), node.outputs.end(),
                                        [](ValueId output) { return output != kNone; });
    const bool has_effect = !node.op->writes.empty() || (node.op->stateful && !any_output);
    if (!has_effect || is_op(node, "leat.Initialize")) continue;
    if (std::count(once.begin(), once.end(), id) == 0) nodes.push_back(id);
  }
  return nodes;
}

Result<Borders> borders_of(const Graph& graph, const ProgramSpec& program) {
  Borders borders;
  LEAT_ASSIGN_OR_RETURN(const auto once, program_nodes(graph, program.init, "init"));
  LEAT_ASSIGN_OR_RETURN(borders.targets, program_nodes(graph, program.step, "step"));
  if (program.step.empty()) borders.targets = all_effects(graph, once);
  for (const std::string& name : program.fetch) {
    LEAT_ASSIGN_OR_RETURN(const ValueId value, value_named(graph, name));
    borders.fetches.push_back(value);
  }
  if (program.fetch.empty()) borders.fetches = graph.outputs();
  if (!borders.targets.empty() || !borders.fetches.empty()) return borders;
  return invalid_argument(
      "program: expected nodes that a step runs, or values that it fetches; the "
      "graph has neither a node that writes nor an output");
}

// The value as a scalar of the precision.
Result<ValueId> as_scalar(GraphBuilder& g, ValueId value, DType precision) {
  const ValueType type = g.graph().value(value).type;
  const auto shape = type.shape.concrete();
  if (type.kind != ValueKind::tensor || !shape || shape->elements() != 1) {
    return invalid_argument(cat("program.fetch: '", g.graph().describe(value),
                                "': expected one number, it is ", g.graph().type_text(type)));
  }
  if (type.dtype != precision)
    value = g.op("Cast", {value}, {{"to", int64_t{dtype_onnx_code(precision)}}});
  if (shape->rank() > 0) value = g.op("Reshape", {value, g.constant(Tensor(DType::i64, {0}))});
  return value;
}

}  // namespace

Result<std::vector<NodeId>> program_nodes(const Graph& graph, const std::vector<std::string>& names,
                                          std::string_view key) {
  std::vector<NodeId> nodes;
  for (const std::string& name : names) {
    NodeId found = kNone;
    for (NodeId id = 0; id < graph.nodes() && found == kNone; ++id) {
      if (graph.node(id).name == name) found = id;
    }
    for (ValueId value = 0; value < graph.values() && found == kNone; ++value) {
      if (graph.value_name(value) == name) found = graph.value(value).producer;
    }
    if (found == kNone) return unknown(graph, key, name, "a node, or of a value that a node makes");
    nodes.push_back(found);
  }
  return nodes;
}

Result<JobGraph> make_program_graph(const Graph& model, const TrainSpec& spec) {
  LEAT_ASSIGN_OR_RETURN(const Graph typed, convert_precision(model, spec.precision));
  LEAT_ASSIGN_OR_RETURN(Borders borders, borders_of(typed, *spec.program));
  LEAT_ASSIGN_OR_RETURN(const auto order, typed.topological_order());
  Rewriter rewriter(typed, {});
  if (!typed.inputs().empty()) {
    LEAT_ASSIGN_OR_RETURN(const ModelInputs inputs, bind_inputs(typed, spec, {}, true));
    GraphBuilder builder(rewriter.to());
    const Batch batch = read_batch(builder, spec, inputs, true);
    LEAT_RETURN_IF_ERROR(builder.status().while_doing("reading the columns"));
    for (size_t i = 0; i < batch.inputs.size(); ++i)
      rewriter.map_value(typed.inputs()[i], batch.inputs[i]);
  }
  for (const NodeId id : order) {
    if (is_op(typed.node(id), "leat.Initialize")) continue;
    rewriter.to().node(rewriter.copy(id)).source = id;  // random numbers belong to the file's node
  }
  JobGraph job{Graph(model.catalogue()), {}, {}, {}};
  LEAT_ASSIGN_OR_RETURN(job.graph, rewriter.finish(borders));
  LEAT_RETURN_IF_ERROR(check_patterns(job.graph, spec.autocast));
  LEAT_ASSIGN_OR_RETURN(job.graph, autocast(std::move(job.graph), borders, spec.autocast));
  job.targets = std::move(borders.targets);
  GraphBuilder g(job.graph);
  LEAT_RETURN_IF_ERROR(g.status().while_doing("attaching the input"));
  for (const ValueId fetch : borders.fetches) {
    LEAT_ASSIGN_OR_RETURN(const ValueId scalar, as_scalar(g, fetch, spec.precision));
    job.fetches.push_back(scalar);
  }
  LEAT_RETURN_IF_ERROR(g.status().while_doing("adding the fetches"));
  return job;
}

}  // namespace leat
