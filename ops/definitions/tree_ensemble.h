// leat.TreeEnsemble: decision trees over the features of a row. ONNX's TreeEnsemble and its older
// forms become this op on import (ops/text/tree_composites.cc).
//
// A node compares a feature with its split and goes on to one of two others. A place >= 0 is a
// node; a negative one is leaf -1 - place. The attributes are lists over the nodes (features,
// modes, splits, yes, no, missing) and over the leaves (leaf_targets, leaf_weights); `roots` has a
// place for each tree. A node of the mode "member" is followed by its set in `members`, whose ends
// are in `member_ends`, one for each such node.
#pragma once

#include <cstdint>
#include <vector>

#include "devices/base/status.h"
#include "ops/graph/attrs.h"

namespace leat {

class TreeEnsemble {
 public:
  // Reads the attributes. invalid_argument, without a subject, for lists of different lengths,
  // places that are not there, nodes that lead back to themselves, and targets out of range.
  static Result<TreeEnsemble> read(const Attrs& attrs);

  int64_t targets() const { return targets_; }
  // The number of features that the nodes look at: one more than the largest index.
  int64_t features() const { return features_; }
  // Writes the scores of a row of features(), which has targets() elements. It allocates nothing.
  // The least and the greatest of no leaves are the ends of a type whose largest number this is.
  void score(const double* row, double* scores, double largest) const;

 private:
  enum class Mode : uint8_t { leq, lt, gte, gt, eq, neq, member };
  enum class Aggregate : uint8_t { average, sum, min, max };
  struct Node {
    int64_t feature = 0;
    Mode mode = Mode::leq;
    bool missing_yes = false;  // a NaN goes on with `yes`
    double split = 0;
    int64_t yes = 0, no = 0;
    int64_t members_begin = 0, members_end = 0;
  };
  struct Leaf {
    int64_t target = 0;
    double weight = 0;
  };
  Status read_nodes(const Attrs& attrs);
  Status read_leaves(const Attrs& attrs);
  Status check_places() const;
  bool takes_yes(const Node& node, double x) const;

  std::vector<Node> nodes_;
  std::vector<Leaf> leaves_;
  std::vector<int64_t> roots_;
  std::vector<double> members_;  // of all sets, each of them sorted
  Aggregate aggregate_ = Aggregate::sum;
  int64_t targets_ = 0, features_ = 0;
};

}  // namespace leat
