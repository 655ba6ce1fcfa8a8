// Graph files by their extension: .onnxtxt (the text form), .onnx (a model that some other
// framework exported) and .leat (the form of the wire, hashed).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "devices/base/files.h"
#include "devices/base/status.h"
#include "ops/graph/graph.h"
#include "ops/graph/op.h"
#include "ops/onnx/import.h"

namespace leat {

struct LoadedGraph {
  Graph graph;                     // as written: not validated, its layers not expanded
  std::vector<std::string> notes;  // for people: what the exporter seems to have left out
  // Paths of the other files that it has its data in, all below its own directory: real ones, every
  // symbolic link followed.
  std::vector<std::string> data = {};
};

// Whether a file of this name is taken for a graph.
bool is_graph_file(std::string_view name);

// The graph of a file. invalid_argument for an unknown extension and for a file that is wrong, with
// its place; failed_precondition if there is no such file. The catalogue must outlive the graph.
// `onnx`: for the weights inside an .onnx file.
Result<LoadedGraph> load_graph(Files& files, const std::string& path, const Catalogue& catalogue,
                               const OnnxOptions& onnx);

// Nodes of a model, its layers expanded, over all shards of a job: plans are made and sent of as
// many.
inline constexpr uint64_t kMostShardNodes = 200'000;

// invalid_argument beyond that: what cannot be planned is refused before anybody waits for it.
Status check_size(const std::string& path, const Graph& model, int64_t shards);

// Writes it, whole or not at all. .onnx is unimplemented: ONNX's own parser reads .onnxtxt.
Status save_graph(Files& files, const std::string& path, const Graph& graph);

}  // namespace leat
