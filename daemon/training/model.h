// The model of a job: its graph file, with the layers expanded.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "daemon/spec/job.h"
#include "devices/base/files.h"
#include "ops/graph/free_batch.h"
#include "ops/graph/graph.h"
#include "ops/onnx/export.h"

namespace leat {

// Layers are nodes already; training and inference have the same variables under the same names.
struct Model {
  // The graph for training steps: dropout drops, and normalization uses the statistics of the
  // batch.
  Graph training;
  // The graph for evaluation and prediction.
  Graph inference;
  // The batch size of the input: free, or fixed with the reason why.
  ModelBatch batch;
  // Messages for people from the reader of the file.
  std::vector<std::string> notes;
  // The files beside the graph that hold its tensors, as in LoadedGraph.
  std::vector<std::string> data;
  // The version of ONNX's ops in the file: see LoadedGraph::opset.
  int64_t opset = kTextOpset;
};

// A key in the metadata of a run's weights.safetensors, with kTrainsParameters as its value. It is
// there if the model is an .onnx file of which only the parameters are trained. Older runs lack
// it: see OnnxOptions.
inline constexpr const char* kTrainsKey = "leat.trains";

// `every_float`: see OnnxOptions. Errors are those of load_graph() and expand_layers().
// `model.graph` is an ONNX file, binary or in ONNX's text form. The function reads the whole file,
// with its tensors.
//
// With `widens`, a model whose variables are floats of 16 bits becomes one of float32: a training
// needs weights that a small update changes, and it says by its precision what a step computes in.
//
// If the job names outputs, the graph keeps these alone, in that order, with what they need:
// invalid_argument for one that the graph does not have.
Result<Model> load_model(Files& files, const Catalogue& catalogue, const Job::Model& model,
                         bool every_float = false, bool widens = true);

// The bytes of the tensors from which the variables of the model take their first values.
uint64_t initial_value_bytes(const Model& model);
// Gives those tensors back: they become zeros of the same types, which take no memory. Nodes keep
// their numbers, and every graph made of the model but that of make_init_graph() stays the same.
void drop_initial_values(Model& model);

}  // namespace leat
