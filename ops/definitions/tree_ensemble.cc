#include "ops/definitions/tree_ensemble.h"

#include <algorithm>
#include <cmath>

#include "devices/base/text.h"
#include "ops/definitions/definitions.h"
#include "ops/graph/limits.h"
#include "ops/graph/op.h"

namespace leat {
namespace {

// The most features and targets: a row of them is in memory of a thread.
constexpr int64_t kMostOfTrees = limits::kListLength;

std::vector<double> doubles_of(const Attrs& attrs, std::string_view name) {
  const auto found = attrs.find(name);
  const auto* list =
      found == attrs.end() ? nullptr : std::get_if<std::vector<double>>(&found->second);
  return list ? *list : std::vector<double>();
}

Status infer_tree_ensemble(InferContext& ctx) {
  const auto trees = TreeEnsemble::read(ctx.attrs());
  if (!trees.ok()) return ctx.error(trees.status().message());
  const SymbolicShape& x = ctx.shape(0);
  const auto features = x.rank() == 2 ? constant_of(x[1]) : std::nullopt;
  if (x.rank() != 2 || (features && *features < trees->features())) {
    return ctx.error(cat("X: expected rows [N,F] of at least ", trees->features(),
                         " features, received ", ctx.text(x)));
  }
  ctx.set_tensor(0, ctx.dtype(0), {x[0], Dim::of(trees->targets())});
  return {};
}

// A score is constant but at the splits.
Status no_tree_gradient(GradientContext&) { return {}; }

std::vector<ShardingRule> shard_scored_rows(const std::vector<OperandType>&,
                                            const std::vector<OperandType>&, const Attrs&) {
  return {{{Spread::on(0)}, {Spread::on(0)}}};
}

}  // namespace

Result<TreeEnsemble> TreeEnsemble::read(const Attrs& attrs) {
  TreeEnsemble out;
  out.targets_ = attr_int(attrs, "targets");
  const int64_t aggregate = attr_int(attrs, "aggregate");
  if (out.targets_ < 1 || out.targets_ > kMostOfTrees || aggregate < 0 || aggregate > 3)
    return invalid_argument(cat("expected targets from 1 to ", kMostOfTrees,
                                " and an aggregate from 0 to ", "3, received ", out.targets_,
                                " and ", aggregate));
  out.aggregate_ = static_cast<Aggregate>(aggregate);
  LEAT_RETURN_IF_ERROR(out.read_nodes(attrs));
  LEAT_RETURN_IF_ERROR(out.read_leaves(attrs));
  out.roots_ = attr_ints(attrs, "roots");
  LEAT_RETURN_IF_ERROR(out.check_places());
  return out;
}

Status TreeEnsemble::read_nodes(const Attrs& attrs) {
  const auto features = attr_ints(attrs, "features"), modes = attr_ints(attrs, "modes"),
             yes = attr_ints(attrs, "yes"), no = attr_ints(attrs, "no"),
             missing = attr_ints(attrs, "missing"), ends = attr_ints(attrs, "member_ends");
  const auto splits = doubles_of(attrs, "splits");
  members_ = doubles_of(attrs, "members");
  const size_t count = features.size();
  for (const size_t other : {modes.size(), yes.size(), no.size(), splits.size(), missing.size()}) {
    if (other != count)
      return invalid_argument(cat("expected features, modes, splits, yes, no and missing of one ",
                                  "length, received ", count, " and ", other));
  }
  size_t sets = 0;
  for (size_t i = 0; i < count; ++i) {
    if (modes[i] < 0 || modes[i] > 6 || features[i] < 0 || features[i] >= kMostOfTrees)
      return invalid_argument(cat("node ", i, ": expected a feature from 0 to ", kMostOfTrees - 1,
                                  " and a mode from 0 to 6, received ", features[i], " and ",
                                  modes[i]));
    Node node{features[i], static_cast<Mode>(modes[i]), missing[i] != 0, splits[i], yes[i], no[i]};
    if (node.mode == Mode::member) {
      const int64_t begin = sets == 0 ? 0 : ends[sets - 1];
      const int64_t end = sets < ends.size() ? ends[sets] : -1;
      if (end < begin || end > static_cast<int64_t>(members_.size()))
        return invalid_argument(cat("node ", i, ": expected the end of its set in member_ends"));
      const bool missing_member = std::any_of(members_.begin() + begin, members_.begin() + end,
                                              [](double x) { return std::isnan(x); });
      if (missing_member)
        return invalid_argument(cat("node ", i, ": expected numbers in its set, received NaN"));
      std::sort(members_.begin() + begin, members_.begin() + end);
      node.members_begin = begin;
      node.members_end = end;
      ++sets;
    }
    features_ = std::max(features_, features[i] + 1);
    nodes_.push_back(node);
  }
  return {};
}

Status TreeEnsemble::read_leaves(const Attrs& attrs) {
  const auto targets = attr_ints(attrs, "leaf_targets");
  const auto weights = doubles_of(attrs, "leaf_weights");
  if (weights.size() != targets.size())
    return invalid_argument(cat("expected leaf_targets and leaf_weights of one length, received ",
                                targets.size(), " and ", weights.size()));
  for (size_t i = 0; i < weights.size(); ++i) {
    if (targets[i] < 0 || targets[i] >= targets_)
      return invalid_argument(cat("leaf ", i, ": expected a target from 0 to ", targets_ - 1,
                                  ", received ", targets[i]));
    leaves_.push_back({targets[i], weights[i]});
  }
  return {};
}

// Every place exists, and no path from a root comes back to a node of its own.
Status TreeEnsemble::check_places() const {
  const auto nodes = static_cast<int64_t>(nodes_.size());
  const auto leaves = static_cast<int64_t>(leaves_.size());
  const auto exists = [&](int64_t place) { return place < nodes && place >= -leaves; };
  for (const int64_t root : roots_) {
    if (!exists(root)) return invalid_argument(cat("roots: expected a place, received ", root));
  }
  for (int64_t i = 0; i < nodes; ++i) {
    const Node& node = nodes_[static_cast<size_t>(i)];
    if (!exists(node.yes) || !exists(node.no))
      return invalid_argument(cat("node ", i, ": expected places of ", nodes, " nodes and ", leaves,
                                  " leaves, received ", node.yes, " and ", node.no));
  }
  enum : uint8_t { fresh, open, done };
  std::vector<uint8_t> state(nodes_.size(), fresh);
  std::vector<int64_t> path;
  for (int64_t start = 0; start < nodes; ++start) {
    if (state[static_cast<size_t>(start)] == fresh) path.push_back(start);
    while (!path.empty()) {
      const auto at = static_cast<size_t>(path.back());
      if (state[at] != fresh) {
        state[at] = done;
        path.pop_back();
        continue;
      }
      state[at] = open;
      for (const int64_t next : {nodes_[at].yes, nodes_[at].no}) {
        if (next < 0) continue;
        if (state[static_cast<size_t>(next)] == open)
          return invalid_argument(cat("node ", next, ": expected trees, it leads back to itself"));
        if (state[static_cast<size_t>(next)] == fresh) path.push_back(next);
      }
    }
  }
  return {};
}

bool TreeEnsemble::takes_yes(const Node& node, double x) const {
  if (std::isnan(x) && node.missing_yes) return true;
  switch (node.mode) {
    case Mode::leq:
      return x <= node.split;
    case Mode::lt:
      return x < node.split;
    case Mode::gte:
      return x >= node.split;
    case Mode::gt:
      return x > node.split;
    case Mode::eq:
      return x == node.split;
    case Mode::neq:
      return x != node.split;
    case Mode::member: {
      return !std::isnan(x) && std::binary_search(members_.begin() + node.members_begin,
                                                  members_.begin() + node.members_end, x);
    }
  }
  return false;
}

void TreeEnsemble::score(const double* row, double* scores, double largest) const {
  const double first = aggregate_ == Aggregate::min   ? largest
                       : aggregate_ == Aggregate::max ? -largest
                                                      : 0;
  std::fill_n(scores, targets_, first);
  for (const int64_t root : roots_) {
    int64_t place = root;
    while (place >= 0) {
      const Node& node = nodes_[static_cast<size_t>(place)];
      place = takes_yes(node, row[node.feature]) ? node.yes : node.no;
    }
    const Leaf& leaf = leaves_[static_cast<size_t>(-1 - place)];
    double& score = scores[leaf.target];
    switch (aggregate_) {
      case Aggregate::average:
        score += leaf.weight / static_cast<double>(roots_.size());
        break;
      case Aggregate::sum:
        score += leaf.weight;
        break;
      case Aggregate::min:
        score = std::min(score, leaf.weight);
        break;
      case Aggregate::max:
        score = std::max(score, leaf.weight);
        break;
    }
  }
}

void register_tree_ensemble_ops(Catalogue& catalogue) {
  catalogue.add(Op("leat.TreeEnsemble")
                    .input("X", "T")
                    .output("Y", "T")
                    .type("T", kFloats)
                    .attr_required("roots", "ints")
                    .attr_required("features", "ints")
                    .attr_required("modes", "ints")
                    .attr_required("splits", "floats")
                    .attr_required("yes", "ints")
                    .attr_required("no", "ints")
                    .attr_required("missing", "ints")
                    .attr_required("leaf_targets", "ints")
                    .attr_required("leaf_weights", "floats")
                    .attr_required("targets", "int")
                    .attr("members", std::vector<double>())
                    .attr("member_ends", std::vector<int64_t>())
                    .attr("aggregate", int64_t{1})
                    .infer(infer_tree_ensemble)
                    .gradient(no_tree_gradient)
                    .sharding(shard_scored_rows));
}

}  // namespace leat
