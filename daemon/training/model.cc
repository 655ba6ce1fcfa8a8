#include "daemon/training/model.h"

#include <utility>
#include <vector>

#include "daemon/spec/load_graph.h"
#include "devices/base/text.h"
#include "ops/graph/op.h"
#include "ops/layers/layers.h"
#include "scheduler/graph/data_binding.h"
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

}  // namespace

Result<Model> load_model(Files& files, const Catalogue& catalogue, const Job::Model& model,
                         bool every_float, bool widens) {
  LEAT_ASSIGN_OR_RETURN(LoadedGraph loaded,
                        load_graph(files, model.graph, catalogue, {true, every_float}));
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

}  // namespace leat
