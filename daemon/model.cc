#include <filesystem>

#include "daemon/load_graph.h"
#include "daemon/trainer.h"
#include "devices/base/text.h"
#include "ops/layers/layers.h"

namespace leat {

Result<Model> load_model(Files& files, const Catalogue& catalogue, const std::string& path) {
  LEAT_ASSIGN_OR_RETURN(LoadedGraph loaded, load_graph(files, path, catalogue, true));
  LEAT_ASSIGN_OR_RETURN(const Graph expanded, expand_layers(loaded.graph));
  LEAT_ASSIGN_OR_RETURN(Graph training, set_training(expanded, true));
  LEAT_ASSIGN_OR_RETURN(Graph inference, set_training(expanded, false));
  return Model{std::move(training), std::move(inference), std::move(loaded.notes)};
}

Result<Job> load_run_job(Files& files, const std::string& folder, const JobOverrides& overrides) {
  LEAT_ASSIGN_OR_RETURN(Job job, load_job(folder + "/job.yaml", overrides));
  const std::string& graph = job.model.graph;
  const std::string copy = folder + "/" + graph.substr(graph.rfind('/') + 1);
  LEAT_ASSIGN_OR_RETURN(const bool there, files.exists(copy));
  if (there && !graph.ends_with(".onnx"))
    job.model.graph = std::filesystem::absolute(copy).string();
  return job;
}

}  // namespace leat
