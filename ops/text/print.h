// Writes the text form of a graph: see ops/text/parse.h.
#pragma once

#include <string>

#include "ops/graph/graph.h"

namespace leat {

// Prints the whole file, which parse_graph() reads back as an equal graph: the same nodes in the
// same order, with the same attributes, names, control edges, devices, sources and types of inputs
// and outputs. Nodes are in topological order, so that a graph in that order keeps its ids. Of a
// NaN only the sign is kept. A value without a name of its own is printed as "%12", where 12 is its
// id in the graph read back. Equal graphs give equal text.
std::string print_graph(const Graph& graph);

}  // namespace leat
