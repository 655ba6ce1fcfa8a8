// Places the boxes of a picture of a graph in rows.
//
// Threads: a pure function.
#pragma once

#include <cstddef>
#include <set>
#include <utility>
#include <vector>

namespace leat {

// From one box to another.
using GraphEdges = std::set<std::pair<size_t, size_t>>;

inline constexpr size_t kBoxesInRow = 6;

// Returns the boxes of each row, from left to right. An edge from a box to a later one goes to a
// lower row, and one to an earlier box counts for nothing: boxes are in the order of their work. A
// box without edges into it is in the row above its highest user. Rows have at most kBoxesInRow
// boxes, those that belong together below each other.
std::vector<std::vector<size_t>> rows_of_graph(size_t boxes, const GraphEdges& edges);

}  // namespace leat
