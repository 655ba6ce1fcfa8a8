// Lists the partitioned graph of a job: the nodes of each device, folded by the scopes of their
// names, with what each of them took in recorded steps.
//
// Threads: pure functions.
#pragma once

#include <span>
#include <string>

#include "daemon/status/node_scopes.h"

namespace leat {

// The HTML of one folded part for each device, which opens to its scopes and nodes. "l1/conv" is
// the node "conv" of the scope "l1". A node has its op, type, the bytes that it moves, and the
// milliseconds of a step that the threads of its device spent on it, added up. More than 3,000
// nodes are lines of text in place of tables; of more than 40,000 the others are counted alone.
std::string node_tree(std::span<const ScopedNodes> devices);

}  // namespace leat
