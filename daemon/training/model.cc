#include "daemon/training/model.h"

#include <malloc.h>
#include <sys/mman.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "daemon/spec/fixed_inputs.h"
#include "daemon/spec/load_graph.h"
#include "devices/base/text.h"
#include "ops/graph/op.h"
#include "ops/layers/layers.h"
#include "scheduler/graph/data_binding.h"
#include "scheduler/graph/op_name.h"
#include "scheduler/graph/prune.h"
#include "scheduler/graph/train_graph.h"

namespace leat {

namespace {

// Keeps the outputs of these names, and the nodes that they or any effect need.
Result<Graph> keep_outputs(Graph graph, const std::vector<std::string>& names) {
  Borders borders;
  for (const std::string& name : names) {
    LEAT_ASSIGN_OR_RETURN(const ValueId output, find_output(graph, name));
    borders.fetches.push_back(output);
  }
  borders.feeds = graph.inputs();
  for (NodeId id = 0; id < graph.nodes(); ++id) {
    if (!graph.node(id).op->writes.empty()) borders.targets.push_back(id);
  }
  LEAT_ASSIGN_OR_RETURN(Graph kept, prune(std::move(graph), borders));
  // Inputs that no node reads any more need no data.
  const auto readers = kept.consumers();
  std::erase_if(borders.feeds, [&](ValueId input) { return readers[input].empty(); });
  LEAT_ASSIGN_OR_RETURN(kept, prune(std::move(kept), borders));
  kept.set_outputs(borders.fetches);
  return kept;
}

// The constants that only leat.Initialize nodes read.
std::vector<NodeId> initial_values(const Graph& graph) {
  std::vector<NodeId> found;
  const auto readers = graph.consumers();
  const auto is_output = [&](ValueId value) {
    return std::ranges::find(graph.outputs(), value) != graph.outputs().end();
  };
  for (NodeId id = 0; id < graph.nodes(); ++id) {
    const Node& node = graph.node(id);
    if (!is_op(node, "Constant") || is_output(node.outputs[0])) continue;
    const auto value = node.attrs.find("value");
    if (value == node.attrs.end() || !std::holds_alternative<Tensor>(value->second)) continue;
    const std::vector<NodeId>& own = readers[node.outputs[0]];
    const bool initial = std::all_of(own.begin(), own.end(), [&](NodeId reader) {
      return is_op(graph.node(reader), "leat.Initialize");
    });
    if (initial && !own.empty()) found.push_back(id);
  }
  return found;
}

const Tensor& value_of(const Graph& graph, NodeId constant) {
  return std::get<Tensor>(graph.node(constant).attrs.find("value")->second);
}

// Memory that reads as zeros, for which the kernel has no page of its own; null if there is none.
std::shared_ptr<void> zeros(size_t bytes) {
  void* const data =
      ::mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED) return nullptr;
  return {data, [bytes](void* mapped) { ::munmap(mapped, bytes); }};
}

}  // namespace

Result<Model> load_model(Files& files, const Catalogue& catalogue, const Job::Model& model,
                         bool every_float, bool widens) {
  LEAT_ASSIGN_OR_RETURN(FixedInputs fixed, fixed_inputs_of(model.fixed));
  LEAT_ASSIGN_OR_RETURN(LoadedGraph loaded,
                        load_graph(files, model.graph, catalogue,
                                   {true, every_float, std::move(fixed), model.outputs}));
  // Layers become nodes before the graph is copied for training and for inference, so both have the
  // same variables.
  LEAT_ASSIGN_OR_RETURN(Graph expanded, expand_layers(loaded.graph));
  if (!model.outputs.empty()) {
    LEAT_ASSIGN_OR_RETURN(expanded, keep_outputs(std::move(expanded), model.outputs));
  }
  if (const DType narrow = narrow_variables(expanded); widens && narrow != DType::invalid) {
    const std::string_view name = precision_name(narrow);
    loaded.notes.push_back(cat(model.graph, ": its weights are ", name,
                               ", and are trained as float32; precision: ", name,
                               " computes the steps in ", name));
    expanded = widen(std::move(expanded));
  }
  // This frees the batch size of the input if the graph allows it, and tells why not if it does
  // not.
  ModelBatch batch = free_batch(expanded);
  LEAT_ASSIGN_OR_RETURN(Graph training, set_training(expanded, true));
  LEAT_ASSIGN_OR_RETURN(Graph inference, set_training(expanded, false));
  return Model{std::move(training),     std::move(inference),   std::move(batch),
               std::move(loaded.notes), std::move(loaded.data), loaded.opset};
}

uint64_t initial_value_bytes(const Model& model) {
  uint64_t bytes = 0;
  for (const NodeId id : initial_values(model.training))
    bytes += value_of(model.training, id).bytes();
  return bytes;
}

void drop_initial_values(Model& model) {
  size_t most = 0;
  for (const Graph* graph : {&model.training, &model.inference}) {
    for (const NodeId id : initial_values(*graph))
      most = std::max(most, value_of(*graph, id).bytes());
  }
  const std::shared_ptr<void> memory = most > 0 ? zeros(most) : nullptr;
  if (memory == nullptr) return;
  for (Graph* graph : {&model.training, &model.inference}) {
    for (const NodeId id : initial_values(*graph)) {
      const Tensor& value = value_of(*graph, id);
      Attr none = Tensor::wrap(value.dtype(), value.shape(), memory.get(), memory);
      graph->node(id).attrs.insert_or_assign("value", std::move(none));
    }
  }
  // The tensors were many small pieces of the heap, which would otherwise stay the process's own.
  ::malloc_trim(0);
}

}  // namespace leat
