#include <algorithm>
#include <queue>
#include <set>
#include <tuple>

#include "devices/base/text.h"
#include "ops/graph/op.h"
#include "scheduler/compile/passes.h"
#include "scheduler/graph/op_name.h"

namespace leat {
namespace {

bool is_receive(const Node& node) {
  return is_op(node, "leat.Receive") || is_op(node, "leat.ReceiveToken");
}
bool is_send(const Node& node) { return is_op(node, "leat.Send") || is_op(node, "leat.SendToken"); }
// True if the list of operands has operand i.
bool contains(const std::vector<int>& list, size_t i) {
  return std::find(list.begin(), list.end(), static_cast<int>(i)) != list.end();
}

// Builds a graph of what must come before what, and then lists the nodes by it.
class Orderer {
 public:
  Orderer(const Graph& graph, const std::vector<uint32_t>& depth)
      : graph_(graph), depth_(depth), consumers_(graph.consumers()), next_(graph.nodes()) {}

  Result<Order> run() {
    // Data and control edges come first. The next two calls add edges for variables and for the
    // Commit.
    for (NodeId id = 0; id < graph_.nodes(); ++id) {
      for (ValueId input : graph_.node(id).inputs) {
        if (input != kNone && graph_.value(input).producer != kNone)
          next_[graph_.value(input).producer].push_back(id);
      }
      for (NodeId before : graph_.node(id).after) next_[before].push_back(id);
    }
    LEAT_RETURN_IF_ERROR(order_state());
    order_commit();
    LEAT_RETURN_IF_ERROR(list());
    delay_receives();
    return std::move(out_);
  }

 private:
  // By node: true if it comes after one of these, as the edges are now.
  std::vector<bool> reach(NodeId from) const { return reach(std::vector<NodeId>{from}); }
  std::vector<bool> reach(std::vector<NodeId> stack) const {
    std::vector<bool> seen(graph_.nodes(), false);
    while (!stack.empty()) {
      const NodeId id = stack.back();
      stack.pop_back();
      for (NodeId next : next_[id]) {
        if (!seen[next]) {
          seen[next] = true;
          stack.push_back(next);
        }
      }
    }
    return seen;
  }

  // The readers of the bytes of a Read's output: its consumers, through views.
  void readers(ValueId value, std::set<NodeId>& out) const {
    for (NodeId consumer : consumers_[value]) {
      out.insert(consumer);
      if (graph_.node(consumer).op->view) readers(graph_.node(consumer).outputs[0], out);
    }
  }

  // Reads see the variable as it was when the step began, unless a path puts them after a write;
  // writes need an order.
  Status order_state() {
    for (ValueId resource = 0; resource < graph_.values(); ++resource) {
      if (graph_.value(resource).type.kind != ValueKind::resource) continue;
      std::vector<NodeId> writers, reads;
      for (NodeId id : consumers_[resource]) {
        const Node& node = graph_.node(id);
        for (size_t i = 0; i < node.inputs.size(); ++i) {
          if (node.inputs[i] != resource) continue;
          if (contains(node.op->writes, i))
            writers.push_back(id);
          else if (contains(node.op->reads, i))
            reads.push_back(id);
        }
      }
      LEAT_RETURN_IF_ERROR(order_one(resource, writers, reads));
    }
    return {};
  }

  // A node that writes has no output to be called after: what it writes says which it is.
  std::string describe_writer(NodeId id) const {
    const Node& node = graph_.node(id);
    const std::string text = graph_.describe_node(id);
    if (!node.name.empty() || node.inputs.size() < 2 || node.inputs[1] == kNone) return text;
    const ValueId written = node.inputs[1];
    const NodeId producer = graph_.value(written).producer;
    if (producer == kNone) return cat(text, " of ", graph_.describe(written));
    return cat(text, " of an output of ", graph_.describe_node(producer));
  }
  std::string describe_variable(ValueId resource) const {
    const NodeId producer = graph_.value(resource).producer;
    const std::string name =
        producer == kNone ? "" : attr_string(graph_.node(producer).attrs, "name");
    return name.empty() ? graph_.describe(resource) : cat("'", name, "'");
  }

  Status order_one(ValueId resource, const std::vector<NodeId>& writers,
                   const std::vector<NodeId>& reads) {
    for (size_t w = 0; w < writers.size(); ++w) {
      std::vector<bool> after = reach(writers[w]);
      for (size_t o = 0; o < w; ++o) {
        // Two writes without an order would give bits that depend on chance.
        if (after[writers[o]] || reach(writers[o])[writers[w]]) continue;
        return invalid_argument(cat(
            describe_writer(writers[o]), " and ", describe_writer(writers[w]), ": both write ",
            describe_variable(resource), "; expected a control edge that says which comes first"));
      }
      for (NodeId read : reads) {
        // A Read is a view of the variable, so all readers of its bytes must come before the write.
        // If one of them must come after it, the Read is a copy, and only the copy comes before.
        if (after[read]) continue;
        std::set<NodeId> users;
        readers(graph_.node(read).outputs[0], users);
        const bool must_copy =
            std::any_of(users.begin(), users.end(), [&](NodeId u) { return after[u]; });
        if (must_copy) {
          if (std::find(out_.copied_reads.begin(), out_.copied_reads.end(), read) ==
              out_.copied_reads.end())
            out_.copied_reads.push_back(read);
          users = {};
        }
        users.insert(read);
        for (NodeId user : users) {
          if (user != writers[w]) next_[user].push_back(writers[w]);
        }
        // The new edges may have put more nodes behind this writer.
        after = reach(writers[w]);
      }
    }
    return {};
  }

  // Before the Commit: all that follows no write. After it: writes and what leads to one, then the
  // rest.
  void order_commit() {
    rank_.assign(graph_.nodes(), 0);
    NodeId commit = kNone;
    std::vector<NodeId> writers;
    for (NodeId id = 0; id < graph_.nodes(); ++id) {
      const OpDef& op = *graph_.node(id).op;
      if (is_op(op, "leat.Commit")) commit = id;
      if (!op.writes.empty()) writers.push_back(id);
    }
    if (commit == kNone) return;
    const std::vector<bool> written = reach(writers);  // by another write
    for (NodeId id = 0; id < graph_.nodes(); ++id) {
      if (!written[id]) continue;
      const std::vector<bool> after = reach(id);
      const bool leads_to_write =
          std::any_of(writers.begin(), writers.end(), [&](NodeId writer) { return after[writer]; });
      rank_[id] = leads_to_write ? 2 : 3;
    }
    for (NodeId writer : writers) rank_[writer] = 2;
    rank_[commit] = 1;
    for (NodeId id = 0; id < graph_.nodes(); ++id) {
      if (rank_[id] == 0) next_[id].push_back(commit);
      if (rank_[id] == 2) next_[commit].push_back(id);
    }
  }

  Status list() {
    std::vector<uint32_t> waiting(graph_.nodes(), 0);
    for (const auto& list : next_) {
      for (NodeId id : list) ++waiting[id];
    }
    // Hops first; then sends, which others wait for; then the order of the graph.
    using Key = std::tuple<int, uint32_t, int, NodeId>;
    const auto key = [&](NodeId id) {
      return Key(rank_[id], depth_[id], is_send(graph_.node(id)) ? 0 : 1, id);
    };
    std::priority_queue<Key, std::vector<Key>, std::greater<>> ready;
    for (NodeId id = 0; id < graph_.nodes(); ++id) {
      if (waiting[id] == 0) ready.push(key(id));
    }
    while (!ready.empty()) {
      const NodeId id = std::get<3>(ready.top());
      ready.pop();
      out_.nodes.push_back(id);
      // A node is ready when all that it follows are listed. Edges may be there twice, and count
      // twice.
      for (NodeId next : next_[id]) {
        if (--waiting[next] == 0) ready.push(key(next));
      }
    }
    // Nodes of a cycle are never ready.
    if (out_.nodes.size() == graph_.nodes()) return {};
    return internal_error(
        cat("graph '", graph_.name, "': the order of reads and writes has a cycle"));
  }

  // Nothing is gained by waiting for a value before a node needs it.
  void delay_receives() {
    std::vector<NodeId> listed;
    std::vector<bool> done(graph_.nodes(), false);
    for (NodeId id : out_.nodes) {
      if (is_receive(graph_.node(id))) continue;
      // A Receive is listed before the first node that needs it.
      const auto need = [&](NodeId before) {
        if (before != kNone && is_receive(graph_.node(before)) && !done[before]) {
          done[before] = true;
          listed.push_back(before);
        }
      };
      for (ValueId input : graph_.node(id).inputs) {
        if (input != kNone) need(graph_.value(input).producer);
      }
      for (NodeId before : graph_.node(id).after) need(before);
      // Nothing may wait behind the Commit, so all values that are still to come arrive before it.
      if (rank_[id] == 1) {
        for (NodeId before : out_.nodes) need(before);
      }
      listed.push_back(id);
    }
    for (NodeId id : out_.nodes) {
      if (is_receive(graph_.node(id)) && !done[id]) listed.push_back(id);
    }
    out_.nodes = std::move(listed);
  }

  const Graph& graph_;
  const std::vector<uint32_t>& depth_;
  std::vector<std::vector<NodeId>> consumers_;
  std::vector<std::vector<NodeId>> next_;
  std::vector<int> rank_;  // by node: 1 is the Commit's; see order_commit()
  Order out_;
};

}  // namespace

Result<Order> order(const Graph& graph, const std::vector<uint32_t>& depth) {
  return Orderer(graph, depth).run();
}

}  // namespace leat
