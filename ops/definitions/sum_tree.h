// What leat.SumTree is made from.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/graph/graph.h"

namespace leat {

// In the order of a tree, in postfix: adds the last two. Any other number is the next leaf.
inline constexpr int64_t kSumOfTwo = -1;

// The leaves of a tree of additions, from left to right, and its order.
struct TreeOfSums {
  std::vector<ValueId> leaves;
  std::vector<int64_t> order;

  static TreeOfSums leaf(ValueId value) { return {{value}, {0}}; }
  // left + right.
  static TreeOfSums sum(TreeOfSums left, const TreeOfSums& right) {
    const auto before = static_cast<int64_t>(left.leaves.size());
    left.leaves.insert(left.leaves.end(), right.leaves.begin(), right.leaves.end());
    for (int64_t item : right.order) left.order.push_back(item == kSumOfTwo ? item : item + before);
    left.order.push_back(kSumOfTwo);
    return left;
  }
};

}  // namespace leat
