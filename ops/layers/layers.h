// The layers: nodes of the domain leat that make their own weights (leat.Conv2D, leat.Dense, ...).
// They are for people who write graphs; expand_layers() turns them into variables and ONNX nodes
// before anything else looks at the graph. docs/layers.md has the table of what each one builds.
#pragma once

#include <string>
#include <vector>

#include "devices/base/status.h"
#include "ops/graph/graph.h"
#include "ops/graph/op.h"

namespace leat {

// Adds the layers' signatures and inference. A layer has no kernel: it never runs.
void register_layer_ops(Catalogue& catalogue);

bool is_layer(const OpDef& op);

// "c1": what a layer's variables are called after ("c1/kernel"): the name of its output, else of
// the node, else its op and the how-manieth it is ("dense_2").
std::string layer_name(const Graph& graph, NodeId layer);

// What became of a graph's nodes: origin[n] is the node of the old graph that node n stands for.
struct Expansion {
  Graph graph;
  std::vector<NodeId> origin;
};

// The graph in which every layer became variables, their initial values and ONNX nodes, in training
// form: dropout drops, batch normalization uses its batch and moves its statistics. Validated. The
// names of values, devices and control edges are kept; a random node is keyed by its layer's
// source, so that weights do not change when another layer does. invalid_argument if the graph is
// not valid, if two variables would have one name, or for a layer in a region.
Result<Expansion> expand(const Graph& graph);
Result<Graph> expand_layers(const Graph& graph);

// The same graph for training or for inference. Inference: Dropout passes its input on,
// BatchNormalization uses the running statistics, and what assigns them is gone. Training: the
// reverse, for those BatchNormalizations whose statistics are read from variables. Pure, and
// nothing else changes: layers are to be expanded before.
Result<Graph> set_training(const Graph& graph, bool training);

}  // namespace leat
