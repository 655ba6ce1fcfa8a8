#include "daemon/training/model.h"

#include <utility>

#include "daemon/spec/load_graph.h"
#include "ops/layers/layers.h"

namespace leat {

Result<Model> load_model(Files& files, const Catalogue& catalogue, const std::string& path,
                         bool every_float) {
  LEAT_ASSIGN_OR_RETURN(LoadedGraph loaded,
                        load_graph(files, path, catalogue, {true, every_float}));
  // Layers become nodes before the graph is copied for training and for inference, so both have the
  // same variables.
  LEAT_ASSIGN_OR_RETURN(Graph expanded, expand_layers(loaded.graph));
  // This frees the batch size of the input if the graph allows it, and tells why not if it does
  // not.
  ModelBatch batch = free_batch(expanded);
  LEAT_ASSIGN_OR_RETURN(Graph training, set_training(expanded, true));
  LEAT_ASSIGN_OR_RETURN(Graph inference, set_training(expanded, false));
  return Model{std::move(training), std::move(inference), std::move(batch), std::move(loaded.notes),
               std::move(loaded.data)};
}

}  // namespace leat
