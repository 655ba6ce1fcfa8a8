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
