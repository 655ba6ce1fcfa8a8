// Reads and writes graph files. The extension decides the format: .onnxtxt (the text form), .onnx
// (a model that another framework exported) or .leat (the binary form, with a hash).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "devices/base/files.h"
#include "devices/base/status.h"
#include "ops/graph/graph.h"
#include "ops/graph/op.h"
#include "ops/onnx/export.h"
#include "ops/onnx/import.h"

namespace leat {

// A graph that was read from a file.
struct LoadedGraph {
  Graph graph;                     // as in the file: not validated, layers not expanded
  std::vector<std::string> notes;  // for people: parts that the exporter seems to have left out
  // The paths of other files with its data, all below its own folder, with all symbolic links
  // resolved.
  std::vector<std::string> data = {};
  // The version of ONNX's ops in an .onnx file, or that of the text form.
  int64_t opset = kTextOpset;
};

// True if the extension of this name is that of a graph.
bool is_graph_file(std::string_view name);

// Reads a graph from a file. invalid_argument for an unknown extension, and for an invalid file,
// with the place of the error; failed_precondition if the file does not exist. The catalogue must
// outlive the graph. `onnx`: options for the weights in an .onnx file, and values of inputs, which
// an .onnxtxt file may have, too.
Result<LoadedGraph> load_graph(Files& files, const std::string& path, const Catalogue& catalogue,
                               const OnnxOptions& onnx);

// The files beside a file of weights that hold tensors of it, as in LoadedGraph; only an .onnx file
// has any. Reads the tensors. Errors are those of reading.
Result<std::vector<std::string>> data_of_weights(Files& files, const std::string& path);

// The limit for the nodes of a model, with its layers expanded, times the shards of a job: plans
// for all of these nodes are made and sent.
inline constexpr uint64_t kMostShardNodes = 200'000;

// Returns invalid_argument if a model exceeds kMostShardNodes, so that such a job is refused early.
Status check_size(const std::string& path, const Graph& model, int64_t shards);

// Writes a graph, as a whole or not at all. Returns unimplemented for .onnx; ONNX's own parser
// reads .onnxtxt.
Status save_graph(Files& files, const std::string& path, const Graph& graph);

}  // namespace leat
