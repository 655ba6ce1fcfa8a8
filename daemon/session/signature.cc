#include "daemon/session/signature.h"

#include <algorithm>
#include <set>

#include "devices/base/text.h"
#include "ops/graph/op.h"

namespace leat {
namespace {

// "; did you mean ...?" with the nearest of the names, or nothing.
template <typename Map>
std::string suggestion(const std::string& name, const Map& known) {
  std::vector<std::string> names;
  for (const auto& [candidate, _] : known) names.push_back(candidate);
  return did_you_mean(name, names);
}

// The size that a symbol has in this call, and the value that bound it.
struct Binding {
  int64_t size = 0;
  ValueId by = kNone;
};

// Checks the feeds of one call in their order. A size of a declared type is a constant, or a factor
// times a symbol.
class FeedCheck {
 public:
  explicit FeedCheck(const Graph& graph) : graph_(graph) {}

  Status check(ValueId feed, const Tensor& tensor) {
    const ValueType& type = graph_.value(feed).type;
    // A tensor that is not valid has another dtype, so it is refused here as well.
    if (tensor.dtype() != type.dtype || tensor.shape().rank() != type.shape.rank())
      return refuse(feed, tensor, "");
    for (int i = 0; i < type.shape.rank(); ++i) {
      const Dim dim = type.shape[i];
      const int64_t size = tensor.shape()[i];
      if (dim.is_constant()) {
        if (dim.factor != size) return refuse(feed, tensor, "");
        continue;
      }
      const Symbol& symbol = graph_.symbol_info(dim.symbol);
      // The symbol must come out as an integer.
      if (dim.factor <= 0 || size % dim.factor != 0) return refuse(feed, tensor, "");
      const int64_t bound = size / dim.factor;
      if (symbol.bound && bound > *symbol.bound)
        return refuse(feed, tensor, cat(" where ", symbol.name, " is at most ", *symbol.bound));
      // The first feed with the symbol decides its size for this call.
      const auto [it, fresh] = bindings_.try_emplace(dim.symbol, Binding{bound, feed});
      if (!fresh && it->second.size != bound) {
        return refuse(feed, tensor,
                      cat(" where ", symbol.name, " is ", it->second.size, " as in feed '",
                          graph_.describe(it->second.by), "'"));
      }
    }
    return {};
  }

 private:
  Status refuse(ValueId feed, const Tensor& tensor, const std::string& where) const {
    const std::string received =
        tensor.valid() ? cat(tensor.dtype(), tensor.shape()) : std::string("no tensor");
    return invalid_argument(cat("feed '", graph_.describe(feed), "': expected ",
                                graph_.type_text(graph_.value(feed).type), where, ", received ",
                                received));
  }

  const Graph& graph_;
  std::map<SymbolId, Binding> bindings_;
};

}  // namespace

// Values need names of their own, because feeds and fetches use them. Nodes may share one: only a
// target of that name is then an error.
Result<GraphNames> GraphNames::of(const Graph& graph) {
  GraphNames names;
  for (ValueId id = 0; id < graph.values(); ++id) {
    const std::string& name = graph.value_name(id);
    if (!name.empty() && !names.values_.emplace(name, id).second)
      return invalid_argument(cat("value '", name, "': expected a name of its own, two have it"));
  }
  for (NodeId id = 0; id < graph.nodes(); ++id) {
    const std::string& name = graph.node(id).name;
    if (name.empty()) continue;
    const auto [it, fresh] = names.nodes_.emplace(name, id);
    if (!fresh) it->second = kNone;
  }
  return names;
}

Result<ValueId> GraphNames::tensor(const Graph& graph, const char* what,
                                   const std::string& name) const {
  const auto it = values_.find(name);
  if (it == values_.end()) {
    return invalid_argument(cat(what, " '", name,
                                "': the session's graph has no value of that name",
                                suggestion(name, values_)));
  }
  const ValueType& type = graph.value(it->second).type;
  if (type.kind == ValueKind::tensor) return it->second;
  // Only tensors can cross the border of a step; each other kind gets the advice that fits it.
  const std::string subject = cat(what, " '", name, "': expected a tensor, it is ");
  if (type.kind == ValueKind::token)
    return invalid_argument(cat(subject, "a token: name it as a target"));
  if (type.kind == ValueKind::rows) return invalid_argument(cat(subject, "rows of a table"));
  if (type.dtype == DType::invalid) return invalid_argument(cat(subject, "a resource"));
  return invalid_argument(cat(subject, "a variable: ", what, " the output of a leat.Read of it"));
}

Result<NodeId> GraphNames::target(const Graph& graph, const std::string& name) const {
  // A target may be named by its node, or by any value that the node makes.
  if (const auto it = nodes_.find(name); it != nodes_.end()) {
    if (it->second != kNone) return it->second;
    return invalid_argument(cat("target '", name, "': several nodes have that name"));
  }
  if (const auto it = values_.find(name); it != values_.end()) {
    const NodeId producer = graph.value(it->second).producer;
    if (producer != kNone) return producer;
    return invalid_argument(
        cat("target '", name, "': expected a node, it is an input of the graph"));
  }
  // The suggestion looks at both kinds of names.
  auto known = values_;
  for (const auto& [node, id] : nodes_) known.emplace(node, id);
  return invalid_argument(cat("target '", name, "': the session's graph has no node of that name",
                              suggestion(name, known)));
}

Result<Borders> GraphNames::resolve(const Graph& graph, const Signature& signature) const {
  Borders borders;
  std::set<ValueId> fed;
  for (const std::string& name : signature.feeds) {
    LEAT_ASSIGN_OR_RETURN(const ValueId value, tensor(graph, "feed", name));
    if (!fed.insert(value).second)
      return invalid_argument(cat("feed '", name, "': expected once, received twice"));
    borders.feeds.push_back(value);
  }
  for (const std::string& name : signature.fetches) {
    LEAT_ASSIGN_OR_RETURN(const ValueId value, tensor(graph, "fetch", name));
    borders.fetches.push_back(value);
  }
  for (const std::string& name : signature.targets) {
    LEAT_ASSIGN_OR_RETURN(const NodeId node, target(graph, name));
    borders.targets.push_back(node);
  }
  return borders;
}

Status check_feeds(const Graph& graph, const std::vector<ValueId>& feeds,
                   std::span<const Tensor> tensors) {
  if (feeds.size() != tensors.size()) {
    return invalid_argument(cat("feeds: expected ", feeds.size(), ", received ", tensors.size()));
  }
  FeedCheck check(graph);
  for (size_t i = 0; i < feeds.size(); ++i) LEAT_RETURN_IF_ERROR(check.check(feeds[i], tensors[i]));
  return {};
}

}  // namespace leat
