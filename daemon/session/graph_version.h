// Versions of a session's graph: each holds the one before it, unchanged, and adds to it.
#pragma once

#include <span>

#include "devices/base/status.h"
#include "ops/graph/graph.h"

namespace leat {

// Ok if the nodes, values and inputs of `next` begin with those of `old`: same ops, wiring,
// attributes, constraints and names, at the same ids. invalid_argument names the first that was
// changed. The function compares the declared types of inputs, but not what inference fills in
// (types, made-up symbols). A value that had no name may get one. The time is linear in the size of
// `old`. Subgraphs in attributes are compared by content, not by address.
Status check_appends(const Graph& old, const Graph& next);

// The same graph with its inputs at these ids among its values, ascending: files and messages have
// all inputs first. invalid_argument if a node would read an input that comes after it.
Result<Graph> with_input_ids(const Graph& graph, std::span<const ValueId> ids);

}  // namespace leat
