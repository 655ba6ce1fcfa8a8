// The layers: nodes of the domain leat that make their own weights (leat.Conv2D, leat.Dense, ...).
// They are for people who write graphs. expand_layers() replaces them with variables and ONNX nodes
// before any other pass runs. docs/layers.md has a table of what each one builds.
#pragma once

#include <string>
#include <vector>

#include "devices/base/status.h"
#include "ops/graph/graph.h"
#include "ops/graph/op.h"

namespace leat {

// Adds the layers' signatures and inference. A layer has no kernel, because it never runs.
void register_layer_ops(Catalogue& catalogue);

bool is_layer(const OpDef& op);

// "c1": the prefix of the names of a layer's variables ("c1/kernel"). It is the name of the layer's
// output, else that of the node, else its op and its number among the layers of that op
// ("dense_2").
std::string layer_name(const Graph& graph, NodeId layer);

// origin[n] is the node that node n was made from, of the old graph without If, Loop and Scan.
struct Expansion {
  Graph graph;
  std::vector<NodeId> origin;
};

// Replaces If, Loop and Scan (control_flow.h), then layers with variables, their initial values and
// ONNX nodes, in training form: dropout drops elements, and batch normalization uses the statistics
// of its batch and updates the running ones. The result is validated. Names of values, devices and
// control edges are kept. A random node is keyed by its layer's source, so weights do not change
// when another layer does. invalid_argument if the graph is not valid, or if two variables would
// have one name; unimplemented for a layer in a region.
Result<Expansion> expand(const Graph& graph);
Result<Graph> expand_layers(const Graph& graph);

// Returns the same graph for training or for inference. Inference: Dropout gets the flag false and
// drops nothing, BatchNormalization uses the running statistics, and the nodes that assign them are
// removed. Training: the reverse, for each BatchNormalization whose statistics are read from
// variables. The function is pure and changes nothing else. REQUIRES: layers are expanded.
Result<Graph> set_training(const Graph& graph, bool training);

}  // namespace leat
