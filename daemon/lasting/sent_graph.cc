#include "daemon/lasting/sent_graph.h"

#include "daemon/session/signature.h"
#include "devices/base/text.h"
#include "ops/graph/op.h"
#include "ops/graph/validate.h"
#include "scheduler/graph/prune.h"

namespace leat {
namespace {

// How often each name is there, of nodes and of values.
std::map<std::string, int> names_in(const Graph& graph) {
  std::map<std::string, int> counts;
  for (NodeId id = 0; id < graph.nodes(); ++id) ++counts[graph.node(id).name];
  for (ValueId id = 0; id < graph.values(); ++id) ++counts[graph.value_name(id)];
  counts.erase("");
  return counts;
}

}  // namespace

Result<Graph> SentGraph::read(const LoggedGraph& sent) const {
  LEAT_ASSIGN_OR_RETURN(Graph graph, read_(sent));
  LEAT_RETURN_IF_ERROR(check_names(graph));
  return graph;
}

Status SentGraph::check_names(const Graph& next) const {
  if (!graph_) return {};
  const auto before = names_in(*graph_);
  for (const auto& [name, count] : names_in(next)) {
    const auto found = before.find(name);
    if (found == before.end() || found->second >= count) continue;
    return invalid_argument(
        cat("extending the graph of a lasting session: expected new names for "
            "what is new, received '",
            name, "', which the graph has already"));
  }
  return {};
}

void SentGraph::set(LoggedGraph sent, Graph graph) {
  sent_ = std::move(sent);
  graph_.emplace(std::move(graph));
  touches_.clear();
}

Result<SentGraph::Touches> SentGraph::touches(const Signature& signature, size_t most) {
  const std::string key = cat(join(signature.feeds, "\n"), "\n\n", join(signature.fetches, "\n"),
                              "\n\n", join(signature.targets, "\n"));
  if (const auto found = touches_.find(key); found != touches_.end()) return found->second;
  LEAT_ASSIGN_OR_RETURN(const Touches made, find_touches(signature));
  // The client chooses the signatures, so that there may be any number.
  if (touches_.size() >= most) touches_.clear();
  touches_.emplace(key, made);
  return made;
}

Result<SentGraph::Touches> SentGraph::find_touches(const Signature& signature) const {
  Touches out;
  if (!graph_) return out;
  Graph graph = *graph_;
  LEAT_RETURN_IF_ERROR(validate(graph));
  LEAT_ASSIGN_OR_RETURN(const GraphNames names, GraphNames::of(graph));
  LEAT_ASSIGN_OR_RETURN(Borders borders, names.resolve(graph, signature));
  LEAT_ASSIGN_OR_RETURN(const Graph part, prune(graph, borders));
  for (NodeId id = 0; id < part.nodes(); ++id) {
    const OpDef& op = *part.node(id).op;
    const std::string name = op.full_name();
    if (name == "leat.Restore") out.files = true;
    if (op.make_resource && name != "leat.Variable") out.state = name;
  }
  return out;
}

}  // namespace leat
