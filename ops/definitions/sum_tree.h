// The order of additions of leat.SumTree, which replaces a tree of Adds by one pass over memory.
//
// Addition of floats is not associative, so the tree is part of the result: SumTree computes every
// element with exactly the additions of the tree, each rounded as an Add rounds. Its bits are
// therefore those of the Adds that it replaces, for any number of threads, tiles and blocks.
//
//   auto tree = TreeOfSums::sum(TreeOfSums::leaf(a), TreeOfSums::leaf(b));
//   tree = TreeOfSums::sum(std::move(tree), TreeOfSums::leaf(c));
//   // (a + b) + c: leaves {a, b, c}, order {0, 1, kSumOfTwo, 2, kSumOfTwo}
#pragma once

#include <cstdint>
#include <vector>

#include "devices/base/text.h"
#include "ops/graph/graph.h"

namespace leat {

// An entry of a tree's postfix order that adds the last two sums. Any other entry stands for the
// next leaf.
inline constexpr int64_t kSumOfTwo = -1;

// The leaves of a tree of additions, from left to right, and its postfix order. The order is the
// attribute `order` of the op, and the leaves are its inputs. One leaf is its own sum.
struct TreeOfSums {
  std::vector<ValueId> leaves;
  // An entry >= 0 is the index of a leaf; these entries are 0, 1, 2, ... in ascending order. A tree
  // of n leaves has n - 1 entries kSumOfTwo.
  std::vector<int64_t> order;

  static TreeOfSums leaf(ValueId value) { return {{value}, {0}}; }
  // The tree of left + right: the leaves of `right` are numbered after those of `left`. The two
  // need not have different leaves.
  static TreeOfSums sum(TreeOfSums left, const TreeOfSums& right) {
    const auto before = static_cast<int64_t>(left.leaves.size());
    left.leaves.insert(left.leaves.end(), right.leaves.begin(), right.leaves.end());
    for (int64_t item : right.order) left.order.push_back(item == kSumOfTwo ? item : item + before);
    left.order.push_back(kSumOfTwo);
    return left;
  }
};

// The most sums and leaves that may wait for their other summand at once. The kernel has a stack of
// this size, and scratch memory of 2 KiB for each.
inline constexpr size_t kMostOpenSums = 64;

// The maximum number of values that wait at once while `order` is evaluated: 1 for a single leaf,
// 2 for a sum from the left. invalid_argument if `order` is not the postfix order of a tree of
// `leaves` leaves, or if more than kMostOpenSums wait. Inference and the kernel both call it: the
// attribute may come from a file.
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
