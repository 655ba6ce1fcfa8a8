// What a step of a session is asked for: names in, names out, and how they become ids of the graph
// and concrete shapes.
#pragma once

#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "devices/base/status.h"
#include "devices/tensor.h"
#include "ops/graph.h"
#include "scheduler/compile/rewrite.h"

namespace leat {

// Values go by the names that the graph gives them; a target is a node's name, or the name of one
// of its outputs.
struct Signature {
  std::vector<std::string> feeds, fetches, targets;
  // The step has the variables that it touches to itself (several readers at once) from its start
  // to its end. Without, only each kernel is atomic: what asynchronous training wants. A step that
  // touches a queue never has: it may wait for the step that it would keep out.
  bool isolated = true;
};

using Feeds = std::vector<std::pair<std::string, Tensor>>;

// The names of one version of a graph.
// Threads: immutable.
class GraphNames {
 public:
  GraphNames() = default;
  // invalid_argument if two values have one name.
  static Result<GraphNames> of(const Graph& graph);

  // Checks that values exist and are tensors, that none is fed twice or fed and fetched, that
  // nothing that cannot be fetched is, and that there is something to do. invalid_argument with the
  // nearest right name. REQUIRES: these are the names of `graph`, which is validated.
  Result<Borders> resolve(const Graph& graph, const Signature& signature) const;

 private:
  Result<ValueId> tensor(const Graph& graph, const char* what, const std::string& name) const;
  Result<NodeId> target(const Graph& graph, const std::string& name) const;

  std::map<std::string, ValueId, std::less<>> values_;
  std::map<std::string, NodeId, std::less<>> nodes_;  // kNone if several have it
};

// Checks the fed tensors against their declared types; symbolic sizes are bound by the first feed
// that has them. invalid_argument says which feed, what was expected, and why.
Status check_feeds(const Graph& graph, const std::vector<ValueId>& feeds,
                   std::span<const Tensor> tensors);

}  // namespace leat
