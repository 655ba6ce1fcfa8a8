// The model of a job: its graph file, with the layers expanded.
#pragma once

#include <string>
#include <vector>

#include "devices/base/files.h"
#include "ops/graph/free_batch.h"
#include "ops/graph/graph.h"

namespace leat {

struct Model {
  Graph training;
  Graph inference;
  ModelBatch batch;                // of its input
  std::vector<std::string> notes;  // for people, from the reader of the file
  std::vector<std::string> data;   // as LoadedGraph has it
};

// A key in the metadata of a run's weights.safetensors, with kTrainsParameters as its value. It is
// there if the model is an .onnx file of which only the parameters are trained. Older runs lack
// it: see OnnxOptions.
inline constexpr const char* kTrainsKey = "leat.trains";

// `every_float`: see OnnxOptions. Errors are those of load_graph() and expand_layers().
Result<Model> load_model(Files& files, const Catalogue& catalogue, const std::string& path,
                         bool every_float = false);

}  // namespace leat
