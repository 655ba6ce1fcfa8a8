#include "daemon/load_graph.h"
#include "daemon/trainer.h"
#include "devices/base/text.h"
#include "ops/layers/layers.h"

namespace leat {

Result<Graph> load_model(Files& files, const Catalogue& catalogue, const std::string& path, bool training) {
  LEAT_ASSIGN_OR_RETURN(LoadedGraph loaded, load_graph(files, path, catalogue, true));
  LEAT_ASSIGN_OR_RETURN(Graph expanded, expand_layers(loaded.graph));
  return set_training(expanded, training);
}

}  // namespace leat
