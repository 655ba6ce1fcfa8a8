// Writes the text form of a graph: see ops/text/parse.h.
#pragma once

#include <string>

#include "ops/graph/graph.h"

namespace leat {

// The whole file, which parse_graph() reads back as an equal graph: the same nodes in the same
// order, with the same attributes, names, control edges, devices, sources and types of the borders.
// Nodes stand in topological order, so that a graph in that order keeps its ids. Of a NaN only the
// sign is kept. A value without a name of its own is called "%12", where 12 is its id in the graph
// read back. Equal graphs give equal text.
std::string print_graph(const Graph& graph);

}  // namespace leat
