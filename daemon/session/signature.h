// The signature of a step of a session: the names of its feeds, fetches and targets. Functions
// resolve the names to ids of the graph, and symbolic shapes to concrete ones.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "daemon/spec/step_signature.h"
#include "devices/base/status.h"
#include "devices/core/tensor.h"
#include "ops/graph/graph.h"
#include "scheduler/graph/rewrite.h"

namespace leat {

// The names of one version of a graph.
// Threads: immutable.
class GraphNames {
 public:
  GraphNames() = default;
  // invalid_argument if two values have one name. Values without a name cannot be fed or fetched.
  // Several nodes may share a name; only a target of that name is then an error.
  static Result<GraphNames> of(const Graph& graph);

  // Checks that all names exist, that feeds and fetches are tensors, and that no value is fed
  // twice; prune() checks later that none is fed and fetched, and that there is something to do.
  // invalid_argument with the nearest right name. The order of feeds, fetches and targets stays.
  // REQUIRES: these are the names of `graph`, which is validated.
  Result<Borders> resolve(const Graph& graph, const Signature& signature) const;

 private:
  // `what` is "feed" or "fetch" and begins the message. A variable is refused with the advice to
  // fetch a leat.Read of it, a token with the advice to name it as a target.
  Result<ValueId> tensor(const Graph& graph, const char* what, const std::string& name) const;
  // A target is the name of a node, or of a value that a node makes. An input of the graph has no
  // node: invalid_argument.
  Result<NodeId> target(const Graph& graph, const std::string& name) const;

  std::map<std::string, ValueId, std::less<>> values_;
  std::map<std::string, NodeId, std::less<>> nodes_;  // kNone if several have it
};

// Checks the fed tensors against their declared types; symbolic sizes are bound by the first feed
// that has them. invalid_argument says which feed, what was expected, and why.
Status check_feeds(const Graph& graph, const std::vector<ValueId>& feeds,
                   std::span<const Tensor> tensors);

}  // namespace leat
