// Draws the partitioned graph of a job as pictures that lead to each other.
//
// Threads: pure functions.
#pragma once

#include <span>
#include <string>

#include "daemon/status/node_scopes.h"

namespace leat {

// The HTML of a picture of up to 120 devices and their transfers, if there are several, and of one
// picture for each scope. It has a box for each part of the scope, and a line from each box to
// those that take its values; more than 120 parts are grouped in their order. The box of a scope or
// a group leads to its picture, and that of a node to a card with its op, type, device and time,
// and the nodes whose values it takes or that take its value. One picture is shown at a time,
// without a script. Pictures have at most 2,000 boxes together: the deepest are left out. "" for no
// devices.
std::string graph_picture(std::span<const ScopedNodes> devices);

}  // namespace leat
