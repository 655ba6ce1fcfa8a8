// A graph as TensorBoard shows it.
#pragma once

#include <string>

#include "ops/graph/graph.h"

namespace leat {

// The bytes of a `GraphDef` of TensorFlow's protocol buffers: a node for each node of the graph,
// and for each of its inputs and outputs, with op, constraint of the device, shapes, the type of
// the first output, and the attributes that are numbers or texts. TensorBoard folds nodes by the
// parts of their names between "/", so that characters that it does not take become "_". Names are
// made unique by a number. Constants have no values. Equal graphs give equal bytes. Source:
// tensorflow/core/framework/graph.proto, node_def.proto and attr_value.proto. Threads: a pure
// function.
std::string graph_def(const Graph& graph);

}  // namespace leat
