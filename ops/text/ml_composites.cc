// Ops of ONNX's domain ai.onnx.ml, and Compress.
//
// Source: ONNX's operator reference, ArrayFeatureExtractor-1, Binarizer-1, TreeEnsemble-5 and
// Compress-11.
#include <cmath>
#include <limits>

#include "ops/text/composite_maker.h"

namespace leat {
namespace {

// A list of numbers, of the attribute `name` that is a tensor.
std::vector<double> numbers_of(CompositeMaker& m, std::string_view name) {
  const Tensor tensor = m.tensor(name);
  std::vector<double> out;
  for (int64_t i = 0; tensor.valid() && i < tensor.elements(); ++i) out.push_back(tensor.at(i));
  return out;
}

// The place of a branch in leat.TreeEnsemble: -1 - i for leaf i.
std::vector<int64_t> places(CompositeMaker& m, std::string_view ids, std::string_view leafs) {
  std::vector<int64_t> out = m.integers(ids, {});
  const std::vector<int64_t> are_leafs = m.integers(leafs, {});
  if (out.size() != are_leafs.size()) {
    m.fail(cat(leafs, ": expected as many as ", ids, " has, ", out.size(), ", received ",
               are_leafs.size()));
    return out;
  }
  for (size_t i = 0; i < out.size(); ++i) {
    if (out[i] < 0)
      m.fail(cat(ids, ": expected numbers >= 0, received ", out[i]));
    else if (are_leafs[i] != 0)
      out[i] = -1 - out[i];
  }
  return out;
}

// A node that goes on to the same leaf either way stands for a tree of that leaf alone.
std::vector<int64_t> roots_of(CompositeMaker& m, const std::vector<int64_t>& yes,
                              const std::vector<int64_t>& no) {
  std::vector<int64_t> roots = m.integers("tree_roots", {});
  for (int64_t& root : roots) {
    const auto i = static_cast<size_t>(root);
    if (root < 0 || i >= yes.size() || i >= no.size())
      m.fail(cat("tree_roots: expected nodes from 0 to ", static_cast<int64_t>(yes.size()) - 1,
                 ", received ", root));
    else if (yes[i] < 0 && yes[i] == no[i])
      root = yes[i];
  }
  return roots;
}

// The sets of the nodes of the mode "member", each of which ends with a NaN.
struct Sets {
  std::vector<double> members;
  std::vector<int64_t> ends;
};
Sets sets_of(CompositeMaker& m) {
  Sets sets;
  for (const double member : numbers_of(m, "membership_values")) {
    if (std::isnan(member))
      sets.ends.push_back(static_cast<int64_t>(sets.members.size()));
    else
      sets.members.push_back(member);
  }
  return sets;
}

}  // namespace

void make_tree_ensemble(CompositeMaker& m) {
  const DraftName x = m.in(0);
  const auto yes = places(m, "nodes_truenodeids", "nodes_trueleafs");
  const auto no = places(m, "nodes_falsenodeids", "nodes_falseleafs");
  const Sets sets = sets_of(m);
  std::vector<int64_t> modes;
  for (const double mode : numbers_of(m, "nodes_modes")) {
    if (!(mode >= 0 && mode <= 6) || mode != std::floor(mode))
      return m.fail(cat("nodes_modes: expected integers from 0 to 6, received ", mode));
    modes.push_back(static_cast<int64_t>(mode));
  }
  m.tensor("nodes_hitrates");
  const int64_t after = m.integer("post_transform", 0);
  if (after < 0 || after > 2)
    return m.fail(
        cat("post_transform: expected 0 (none), 1 (softmax) or 2 (logistic), received ", after));
  const DraftName scores = m.op("leat.TreeEnsemble", {x},
                                {{"roots", Attr(roots_of(m, yes, no))},
                                 {"features", Attr(m.integers("nodes_featureids", {}))},
                                 {"modes", Attr(std::move(modes))},
                                 {"splits", Attr(numbers_of(m, "nodes_splits"))},
                                 {"yes", Attr(yes)},
                                 {"no", Attr(no)},
                                 {"missing", Attr(m.integers("nodes_missing_value_tracks_true",
                                                             std::vector<int64_t>(yes.size(), 0)))},
                                 {"leaf_targets", Attr(m.integers("leaf_targetids", {}))},
                                 {"leaf_weights", Attr(numbers_of(m, "leaf_weights"))},
                                 {"targets", Attr(m.integer("n_targets", 1))},
                                 {"members", Attr(sets.members)},
                                 {"member_ends", Attr(sets.ends)},
                                 {"aggregate", Attr(m.integer("aggregate_function", 1))}});
  if (after == 1) m.op("Softmax", {scores}, {{"axis", Attr(int64_t{-1})}});
  if (after == 2) m.op("Sigmoid", {scores});
}

void make_binarizer(CompositeMaker& m) {
  const DraftName x = m.in(0);
  m.op("CastLike", {m.op("Greater", {x, m.scalar(m.number("threshold", 0), x)}), x});
}

// The columns `Y` of a matrix. A vector counts as a row of one.
void make_array_feature_extractor(CompositeMaker& m) {
  const DraftName x = m.in(0), indices = m.op("Reshape", {m.in(1), m.ints({-1})});
  const DraftName columns = m.op("Gather", {x, indices}, {{"axis", Attr(int64_t{-1})}});
  const DraftName before = m.op("Shape", {x}, {{"end", Attr(int64_t{-1})}});
  const DraftName count = m.op("Unsqueeze", {m.op("Size", {before}), m.ints({0})});
  const DraftName kept = m.op("Max", {count, m.ints({1})});
  const DraftName rows = m.op("Slice", {m.concat({m.ints({1}), before}), m.op("Neg", {kept}),
                                        m.ints({std::numeric_limits<int64_t>::max()})});
  m.op("Reshape", {columns, m.concat({rows, m.ints({-1})})});
}

// The elements of a condition that are true are the indices of a Gather.
void make_compress(CompositeMaker& m) {
  const bool flat = !m.has_attribute("axis");
  const int64_t axis = m.integer("axis", 0);
  const DraftName x = flat ? m.op("Reshape", {m.in(0), m.ints({-1})}) : m.in(0);
  const DraftName chosen = m.op("Reshape", {m.op("NonZero", {m.in(1)}), m.ints({-1})});
  m.op("Gather", {x, chosen}, {{"axis", Attr(axis)}});
}

}  // namespace leat
