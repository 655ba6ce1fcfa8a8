#include "daemon/training/model.h"

#include <utility>

#include "daemon/spec/load_graph.h"
#include "ops/layers/layers.h"

namespace leat {

Result<Model> load_model(Files& files, const Catalogue& catalogue, const std::string& path,
                         bool every_float) {
  LEAT_ASSIGN_OR_RETURN(LoadedGraph loaded,
                        load_graph(files, path, catalogue, {true, every_float}));
  LEAT_ASSIGN_OR_RETURN(Graph expanded, expand_layers(loaded.graph));
  ModelBatch batch = free_batch(expanded);
  LEAT_ASSIGN_OR_RETURN(Graph training, set_training(expanded, true));
  LEAT_ASSIGN_OR_RETURN(Graph inference, set_training(expanded, false));
  return Model{std::move(training), std::move(inference), std::move(batch), std::move(loaded.notes),
               std::move(loaded.data)};
}

}  // namespace leat
