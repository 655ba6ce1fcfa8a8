#include "daemon/status/graph_layout.h"

#include <algorithm>
#include <limits>

namespace leat {
namespace {

// The level of each box: below all boxes whose values it takes.
std::vector<size_t> levels_of(size_t boxes, const GraphEdges& edges) {
  constexpr size_t kNoUser = std::numeric_limits<size_t>::max();
  std::vector<size_t> level(boxes, 0), highest_user(boxes, kNoUser);
  std::vector<bool> takes(boxes, false);
  // The edges are sorted by their begins, whose levels are final when their turn comes.
  for (const auto& [from, to] : edges) {
    if (from >= to) continue;
    takes[to] = true;
    level[to] = std::max(level[to], level[from] + 1);
  }
  for (const auto& [from, to] : edges)
    if (from < to) highest_user[from] = std::min(highest_user[from], level[to]);
  for (size_t i = 0; i < boxes; ++i)
    if (!takes[i] && highest_user[i] != kNoUser) level[i] = highest_user[i] - 1;
  return level;
}

}  // namespace

std::vector<std::vector<size_t>> rows_of_graph(size_t boxes, const GraphEdges& edges) {
  const std::vector<size_t> level = levels_of(boxes, edges);
  std::vector<std::vector<size_t>> levels;
  for (size_t i = 0; i < boxes; ++i) {
    if (level[i] >= levels.size()) levels.resize(level[i] + 1);
    levels[level[i]].push_back(i);
  }
  // The mean place of the boxes above that lead to it.
  std::vector<double> sum(boxes, 0), count(boxes, 0), place(boxes, 0.5);
  std::vector<std::vector<size_t>> rows;
  for (std::vector<size_t>& row : levels) {
    const auto wanted = [&](size_t box) { return count[box] > 0 ? sum[box] / count[box] : 0.5; };
    std::stable_sort(row.begin(), row.end(),
                     [&](size_t a, size_t b) { return wanted(a) < wanted(b); });
    for (size_t from = 0; from < row.size(); from += kBoxesInRow) {
      const size_t end = std::min(row.size(), from + kBoxesInRow);
      auto& part = rows.emplace_back(row.begin() + static_cast<ptrdiff_t>(from),
                                     row.begin() + static_cast<ptrdiff_t>(end));
      for (size_t i = 0; i < part.size(); ++i)
        place[part[i]] = (static_cast<double>(i) + 0.5) / static_cast<double>(part.size());
    }
    for (const size_t box : row) {
      for (auto edge = edges.lower_bound({box, 0}); edge != edges.end() && edge->first == box;
           ++edge) {
        sum[edge->second] += place[box];
        ++count[edge->second];
      }
    }
  }
  return rows;
}

}  // namespace leat
