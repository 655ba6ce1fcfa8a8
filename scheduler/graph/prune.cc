#include "scheduler/graph/prune.h"

#include <algorithm>
#include <set>

#include "devices/base/text.h"
#include "ops/graph/op.h"

namespace leat {
namespace {

// Borders may come from outside: their ids are checked before anything uses them.
Status check_borders(const Graph& graph, const Borders& borders) {
  if (borders.fetches.empty() && borders.targets.empty()) {
    return invalid_argument(
        cat("graph '", graph.name, "': expected at least one fetch or target, received none"));
  }
  std::set<ValueId> fed;
  for (ValueId feed : borders.feeds) {
    if (feed >= graph.values()) return invalid_argument(cat("feed: the graph has no value ", feed));
    if (!fed.insert(feed).second)
      return invalid_argument(cat("feed '", graph.describe(feed), "': fed twice"));
  }
  for (ValueId fetch : borders.fetches) {
    if (fetch >= graph.values())
      return invalid_argument(cat("fetch: the graph has no value ", fetch));
    if (fed.count(fetch))
      return invalid_argument(
          cat("'", graph.describe(fetch), "': expected to be fed or fetched, received both"));
  }
  for (NodeId target : borders.targets) {
    if (target >= graph.nodes())
      return invalid_argument(cat("target: the graph has no node ", target));
  }
  return {};
}

// By node: true if a fetch or target needs it. The search stops at fed values.
std::vector<bool> reachable(const Graph& graph, const Borders& borders) {
  std::vector<bool> fed(graph.values(), false);
  for (ValueId feed : borders.feeds) fed[feed] = true;
  // A search backwards from the fetches and targets, through inputs and control edges.
  std::vector<bool> keep(graph.nodes(), false);
  std::vector<NodeId> stack;
  const auto want_node = [&](NodeId id) {
    if (keep[id]) return;
    keep[id] = true;
    stack.push_back(id);
  };
  const auto want = [&](ValueId value) {
    if (value == kNone || fed[value] || graph.value(value).producer == kNone) return;
    want_node(graph.value(value).producer);
  };
  for (ValueId fetch : borders.fetches) want(fetch);
  for (NodeId target : borders.targets) want_node(target);
  while (!stack.empty()) {
    const NodeId id = stack.back();
    stack.pop_back();
    for (ValueId input : graph.node(id).inputs) want(input);
    for (NodeId before : graph.node(id).after) want_node(before);
  }
  return keep;
}

// Copies the nodes that are kept, in topological order, into a graph whose inputs are the feeds.
Result<Graph> copy_kept(const Graph& graph, Borders& borders, const std::vector<bool>& keep) {
  LEAT_ASSIGN_OR_RETURN(const auto order, graph.topological_order());
  // Inputs that are not fed are dropped; fed inner values become inputs.
  std::vector<ValueId> inputs;
  for (ValueId feed : borders.feeds) {
    if (graph.value(feed).producer == kNone) inputs.push_back(feed);
  }
  Rewriter rewriter(graph, inputs);
  std::set<ValueId> fed(borders.feeds.begin(), borders.feeds.end());
  Graph& to = rewriter.to();
  // A value inside the graph that is fed becomes an input with its name and type.
  for (ValueId feed : borders.feeds) {
    if (graph.value(feed).producer != kNone) {
      rewriter.map_value(feed, to.add_input(graph.describe(feed), graph.value(feed).type));
    }
  }
  for (NodeId id : order) {
    if (!keep[id]) continue;
    const Node& node = graph.node(id);
    // Only inputs of kept nodes count: an input that nothing needs may stay without a feed.
    for (ValueId input : node.inputs) {
      if (input != kNone && graph.value(input).producer == kNone && !fed.count(input)) {
        return invalid_argument(cat(graph.describe_node(id), ": needs the input '",
                                    graph.describe(input), "', which is not fed"));
      }
    }
    // A node that makes a fed value may be kept for its other outputs or for its effect. Its copy
    // must not replace the fed value for the readers, so that value is mapped to the input again.
    std::vector<std::pair<ValueId, ValueId>> inputs_kept;
    for (ValueId output : node.outputs) {
      if (output != kNone && fed.count(output))
        inputs_kept.emplace_back(output, rewriter.value(output));
    }
    rewriter.copy(id);
    for (auto [old_value, new_value] : inputs_kept) rewriter.map_value(old_value, new_value);
  }
  return rewriter.finish(borders);
}

}  // namespace

Result<Graph> prune(const Graph& graph, Borders& borders) {
  LEAT_RETURN_IF_ERROR(check_borders(graph, borders));
  return copy_kept(graph, borders, reachable(graph, borders));
}

Result<Graph> prune(Graph&& graph, Borders& borders) {
  LEAT_RETURN_IF_ERROR(check_borders(graph, borders));
  const auto keep = reachable(graph, borders);
  // The common case of later calls: the graph itself is the result, with the same ids.
  const bool keeps_all = std::find(keep.begin(), keep.end(), false) == keep.end();
  if (keeps_all && graph.inputs() == borders.feeds && is_canonical(graph)) return std::move(graph);
  return copy_kept(graph, borders, keep);
}

}  // namespace leat
