// The order of additions of leat.SumTree.
#pragma once

#include <cstdint>
#include <vector>

#include "devices/base/text.h"
#include "ops/graph/graph.h"

namespace leat {

// An entry of a tree's postfix order that adds the last two sums. Any other entry stands for the
// next leaf.
inline constexpr int64_t kSumOfTwo = -1;

// The leaves of a tree of additions, from left to right, and its postfix order.
struct TreeOfSums {
  std::vector<ValueId> leaves;
  std::vector<int64_t> order;

  static TreeOfSums leaf(ValueId value) { return {{value}, {0}}; }
  // The tree of left + right.
  static TreeOfSums sum(TreeOfSums left, const TreeOfSums& right) {
    const auto before = static_cast<int64_t>(left.leaves.size());
    left.leaves.insert(left.leaves.end(), right.leaves.begin(), right.leaves.end());
    for (int64_t item : right.order) left.order.push_back(item == kSumOfTwo ? item : item + before);
    left.order.push_back(kSumOfTwo);
    return left;
  }
};

inline constexpr size_t kMostOpenSums = 64;  // sums and leaves that wait for their other summand

// The maximum number of values that wait at once while `order` is evaluated, or the error in it.
inline Result<size_t> check_sum_order(const std::vector<int64_t>& order, int leaves) {
  int64_t next = 0;
  size_t open = 0, most = 0;
  for (const int64_t item : order) {
    const bool adds = item == kSumOfTwo;
    if (adds ? open < 2 : item != next)
      return invalid_argument(cat("order: ", join(order, ","), " is that of no tree"));
    if (!adds) ++next;
    open = adds ? open - 1 : open + 1;
    most = std::max(most, open);
  }
  if (next != leaves || open != 1 || most > kMostOpenSums)
    return invalid_argument(cat("order: expected that of a tree of ", leaves, " leaves, of which ",
                                kMostOpenSums, " wait at most, received ", join(order, ",")));
  return most;
}

}  // namespace leat
