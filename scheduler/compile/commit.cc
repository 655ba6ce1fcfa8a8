#include <algorithm>
#include <set>

#include "ops/graph/op.h"
#include "ops/state/commits.h"
#include "scheduler/compile/passes.h"

namespace leat {
namespace {

// Finds out whether all writes of a step can follow one Commit on each device.
class Committer {
 public:
  Committer(const Graph& graph, const Borders& borders) : graph_(graph), borders_(borders) {}

  // The devices that need a Commit; none if it cannot be.
  Result<std::set<std::string>> run() {
    LEAT_ASSIGN_OR_RETURN(const auto order, graph_.topological_order());
    // The plan is made without Commits then, and Plan::commits() says so.
    if (!fetches_scalars() || !can_commit(order)) return std::set<std::string>();
    return std::move(writing_);
  }

 private:
  // A row is of floats, one for each fetch.
  bool fetches_scalars() const {
    const auto is_scalar = [&](ValueId fetch) {
      const ValueType& type = graph_.value(fetch).type;
      const auto shape = type.shape.concrete();
      return shape && shape->elements() == 1 &&
             (type.dtype == DType::f32 || type.dtype == DType::f64);
    };
    const size_t n = borders_.fetches.size();
    return n > 0 && n <= size_t{Commits::kMostValues} &&
           std::all_of(borders_.fetches.begin(), borders_.fetches.end(), is_scalar);
  }

  // Nodes that follow a write must stay on its device: otherwise there is a wait behind the write,
  // and perhaps a write behind that. A Commit cannot take back a write to a resource that is no
  // variable.
  bool can_commit(const std::vector<NodeId>& order) {
    std::vector<bool> written(graph_.nodes(), false);  // by node: it or one before it writes
    bool can = true;
    for (NodeId id : order) {
      const Node& node = graph_.node(id);
      const auto follow = [&](NodeId before) {
        if (!written[before]) return;
        written[id] = true;
        can = can && graph_.node(before).device == node.device;
      };
      for (ValueId input : node.inputs) {
        if (input != kNone && graph_.value(input).producer != kNone)
          follow(graph_.value(input).producer);
      }
      for (NodeId before : node.after) follow(before);
      for (int i : node.op->writes) {
        written[id] = true;
        can = can && graph_.value(node.inputs[static_cast<size_t>(i)]).type.dtype != DType::invalid;
      }
      if (!node.op->writes.empty()) writing_.insert(node.device);
    }
    // The Commit reads the fetched values, so none of them may come after a write.
    return can && std::none_of(borders_.fetches.begin(), borders_.fetches.end(), [&](ValueId v) {
             const NodeId producer = graph_.value(v).producer;
             return producer != kNone && written[producer];
           });
  }

  const Graph& graph_;
  const Borders& borders_;
  std::set<std::string> writing_;
};

}  // namespace

Result<Graph> add_commits(Graph graph, const Borders& borders) {
  LEAT_ASSIGN_OR_RETURN(const auto devices, Committer(graph, borders).run());
  const OpDef* commit = graph.catalogue().find("leat.Commit");
  for (const std::string& device : devices) {
    const NodeId made = graph.add_node(*commit, borders.fetches, {}, 0);
    graph.node(made).device = device;
    graph.node(made).name = "commit";
  }
  return graph;
}

}  // namespace leat
