// Versions of a session's graph: each holds the one before it, unchanged, and adds to it.
#pragma once

#include "devices/base/status.h"
#include "ops/graph.h"

namespace leat {

// Ok if the nodes, values and inputs of `next` begin with those of `old`: same ops, wiring,
// attributes, constraints and names, at the same ids. invalid_argument names the first that was
// changed. What inference fills in (types, made-up symbols) is not compared, but for the declared
// types of inputs; a value that had no name may get one.
Status check_appends(const Graph& old, const Graph& next);

}  // namespace leat
