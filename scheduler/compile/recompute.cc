#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "devices/base/text.h"
#include "ops/graph/cost.h"
#include "ops/graph/op.h"
#include "ops/graph/validate.h"
#include "scheduler/compile/compile.h"
#include "scheduler/compile/passes.h"
#include "scheduler/graph/op_name.h"

namespace leat {
namespace {

// A copy takes at most this many nodes: a longer one would cost more than it can be worth.
constexpr size_t kMostNodes = 64;
// Reading or writing a byte takes about as long as this many floating-point operations.
constexpr double kFlopsPerByte = 16;
constexpr size_t kNever = static_cast<size_t>(-1);
constexpr int kMostRounds = 1000;
// The time grows with the square of the number of nodes: 7,000 take a second.
constexpr size_t kMostListed = 30'000;
constexpr const char* kAgain = " (again)";  // ends the names of copies

// The memory of one or several values that share bytes: a value and its views.
struct Storage {
  uint64_t bytes = 0;
  // False for what is there in the whole step, such as variables and constants, and for what no
  // copy of a node can make.
  bool can_go = false;
  size_t begin = 0;          // the position of the node that makes it
  std::vector<size_t> uses;  // positions of its readers, ascending; views do not count
  size_t end() const { return uses.empty() ? begin : uses.back(); }
};

// Works on the listed nodes, whose positions are those in the order. All copies come before the
// first write of the step: until then a copy reads what the node itself has read.
class Recomputation {
 public:
  Recomputation(Part& part, Order& order, LayoutChoice& layouts)
      : graph_(part.graph), borders_(part.borders), order_(order), layouts_(layouts) {}

  // Returns false if it changed nothing although the sum is larger.
  bool shrink(uint64_t bytes) {
    for (int round = 0; round < kMostRounds; ++round) {
      find_storages();
      const auto [peak, live] = find_peak();
      if (live <= bytes) return true;
      if (!shrink_at(peak, live - bytes)) return round > 0;
    }
    return true;
  }

 private:
  struct Candidate {
    ValueId root = kNone;
    size_t next = 0;  // the first use that the copy serves
    double cost = 0;  // of the copy, for each byte that it saves
  };

  // The value whose bytes `value` has.
  ValueId root_of(ValueId value) const {
    while (true) {
      const NodeId producer = graph_.value(value).producer;
      if (producer == kNone || !shares_bytes(producer)) return value;
      value = graph_.node(producer).inputs[0];
    }
  }
  // True for views, and for Reads, which are views of variables.
  bool shares_bytes(NodeId id) const {
    const Node& node = graph_.node(id);
    const auto& copied = order_.copied_reads;
    return node.op->view && std::find(copied.begin(), copied.end(), id) == copied.end() &&
           is_plain(node.inputs[0]) && is_plain(node.outputs[0]);
  }
  bool is_plain(ValueId value) const {
    return value >= layouts_.of_value.size() || layouts_.of_value[value] == Layout::plain;
  }

  uint64_t bytes_of(ValueId value) const {
    const ValueType& type = graph_.value(value).type;
    const auto shape = type.shape.concrete();
    if (!shape || type.kind != ValueKind::tensor) return 0;
    return static_cast<uint64_t>(shape->elements()) * dtype_size(type.dtype);
  }

  // True if a copy of the node makes the same bits.
  bool can_copy(NodeId id) const {
    const Node& node = graph_.node(id);
    if (!node.op->pure() || !node.after.empty() || node.outputs.empty()) return false;
    // A Read that has to be a copy belongs before a write, and some of its readers behind it.
    if (!node.op->reads.empty()) return false;
    if (node.op->domain == "leat" &&
        (node.op->name == "Receive" || node.op->name == "ReceiveToken" || node.op->name == "Send" ||
         node.op->name == "SendToken" || node.op->name == "Join" || node.op->name == "Commit"))
      return false;
    return std::all_of(node.outputs.begin(), node.outputs.end(), [&](ValueId output) {
      return output == kNone || graph_.value(output).type.kind == ValueKind::tensor;
    });
  }

  void find_storages() {
    const size_t nodes = order_.nodes.size();
    position_.assign(graph_.nodes(), kNever);
    is_copy_.resize(graph_.nodes(), false);
    for (size_t p = 0; p < nodes; ++p) position_[order_.nodes[p]] = p;
    first_write_ = nodes;
    for (size_t p = 0; p < nodes && first_write_ == nodes; ++p) {
      const Node& node = graph_.node(order_.nodes[p]);
      if (!node.op->writes.empty() || is_op(node, "leat.Commit")) first_write_ = p;
    }
    storages_.assign(graph_.values(), Storage());
    for (ValueId value = 0; value < graph_.values(); ++value) {
      const NodeId producer = graph_.value(value).producer;
      if (producer == kNone || position_[producer] == kNever || root_of(value) != value) continue;
      const Node& node = graph_.node(producer);
      Storage& storage = storages_[value];
      storage.begin = position_[producer];
      // Variables, constants and what is received have memory of their own.
      const bool elsewhere =
          node.op->make_resource || is_op(node, "Constant") || is_op(node, "leat.Receive");
      // A copy of a copy would only move the sum to another place.
      storage.can_go = can_copy(producer) && !elsewhere && !is_copy_[producer];
      storage.bytes = elsewhere ? 0 : bytes_of(value);
    }
    for (size_t p = 0; p < nodes; ++p) {
      const NodeId id = order_.nodes[p];
      if (shares_bytes(id)) continue;
      for (ValueId input : graph_.node(id).inputs) {
        if (input == kNone) continue;
        Storage& storage = storages_[root_of(input)];
        if (storage.uses.empty() || storage.uses.back() != p) storage.uses.push_back(p);
        // The pieces of a joined value have places that others depend on.
        if (is_op(graph_.node(id), "leat.Join")) storage.can_go = false;
      }
    }
  }

  // The position at which the values that are kept have the most bytes, and these bytes.
  std::pair<size_t, uint64_t> find_peak() const {
    std::vector<int64_t> change(order_.nodes.size() + 1, 0);
    for (const Storage& storage : storages_) {
      if (storage.bytes == 0) continue;
      change[storage.begin] += static_cast<int64_t>(storage.bytes);
      change[storage.end() + 1] -= static_cast<int64_t>(storage.bytes);
    }
    size_t peak = 0;
    int64_t live = 0, most = 0;
    for (size_t p = 0; p < order_.nodes.size(); ++p) {
      live += change[p];
      if (live > most) {
        most = live;
        peak = p;
      }
    }
    return {peak, static_cast<uint64_t>(most)};
  }

  // True if the value is kept at this position anyway.
  bool is_there(ValueId value, size_t position) const {
    const ValueId root = root_of(value);
    const NodeId producer = graph_.value(root).producer;
    if (producer != kNone && position_[producer] == kNever) return false;  // it was dropped
    const Storage& storage = storages_[root];
    return storage.bytes == 0 || (storage.begin < position && storage.end() >= position);
  }

  // Adds the nodes of which copies make the value at `position`, producers first. False if there is
  // no such list, or too long a one.
  bool list_copies(ValueId value, size_t position, std::set<NodeId>& listed,
                   std::vector<NodeId>& out) const {
    const NodeId id = graph_.value(value).producer;
    if (id == kNone) return false;
    if (listed.contains(id)) return true;
    if (!can_copy(id) && !shares_bytes(id)) return false;
    if (out.size() >= kMostNodes) return false;
    for (ValueId input : graph_.node(id).inputs) {
      if (input == kNone || is_there(input, position)) continue;
      if (!list_copies(input, position, listed, out)) return false;
    }
    listed.insert(id);
    out.push_back(id);
    return true;
  }

  double cost_of(NodeId id) const {
    if (shares_bytes(id)) return 0;
    const Node& node = graph_.node(id);
    OpTypes types;
    for (ValueId input : node.inputs) types.inputs.push_back(operand(input));
    for (ValueId output : node.outputs) types.outputs.push_back(operand(output));
    const Attrs attrs = with_defaults(*node.op, node.attrs);
    types.attrs = &attrs;
    return product_flops(*node.op, types) + kFlopsPerByte * operand_bytes(types);
  }
  OperandType operand(ValueId value) const {
    if (value == kNone) return OperandType();
    const ValueType& type = graph_.value(value).type;
    return {type.dtype, type.shape.concrete().value_or(Shape()), Layout::plain, type.kind, true};
  }

  // The use that comes first after `peak`, if the value is kept over the peak for it alone.
  std::optional<size_t> next_use(const Storage& storage, size_t peak) const {
    if (!storage.can_go || storage.bytes == 0 || storage.begin >= peak) return std::nullopt;
    const auto next = std::lower_bound(storage.uses.begin(), storage.uses.end(), peak);
    if (next == storage.uses.end() || *next == peak || *next >= first_write_) return std::nullopt;
    return *next;
  }

  bool shrink_at(size_t peak, uint64_t bytes) {
    std::vector<Candidate> candidates;
    for (ValueId root = 0; root < storages_.size(); ++root) {
      const Storage& storage = storages_[root];
      const auto next = next_use(storage, peak);
      if (!next) continue;
      std::set<NodeId> listed;
      std::vector<NodeId> copies;
      if (!list_copies(root, *next, listed, copies)) continue;
      double cost = 0;
      for (NodeId id : copies) cost += cost_of(id);
      candidates.push_back({root, *next, cost / static_cast<double>(storage.bytes)});
    }
    if (candidates.empty()) return false;
    std::sort(candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) {
      return std::tie(a.cost, a.root) < std::tie(b.cost, b.root);
    });
    // A copy needs the values that are there now, so one that reads another candidate waits for the
    // next round.
    std::set<ValueId> gone, needed;
    std::map<size_t, std::vector<NodeId>> inserted;  // by the position that they come before
    uint64_t saved = 0;
    for (const Candidate& candidate : candidates) {
      if (saved >= bytes) break;
      std::set<NodeId> listed;
      std::vector<NodeId> copies;
      if (needed.contains(candidate.root) ||
          !list_copies(candidate.root, candidate.next, listed, copies))
        continue;
      std::set<ValueId> reads;
      for (NodeId id : copies) {
        for (ValueId input : graph_.node(id).inputs) {
          if (input != kNone) reads.insert(root_of(input));
        }
      }
      if (std::any_of(reads.begin(), reads.end(), [&](ValueId r) { return gone.contains(r); }))
        continue;
      needed.insert(reads.begin(), reads.end());
      gone.insert(candidate.root);
      saved += storages_[candidate.root].bytes;
      copy(candidate, copies, inserted[candidate.next]);
    }
    insert(inserted);
    return saved > 0;
  }

  // Copies the nodes, and has the readers from `candidate.next` on read the copies.
  void copy(const Candidate& candidate, const std::vector<NodeId>& nodes,
            std::vector<NodeId>& inserted) {
    std::map<ValueId, ValueId> again;
    for (NodeId id : nodes) inserted.push_back(copy_node(id, again));
    for (size_t p = candidate.next; p < order_.nodes.size(); ++p) {
      const NodeId id = order_.nodes[p];
      if (shares_bytes(id)) continue;
      for (size_t i = 0; i < graph_.node(id).inputs.size(); ++i) {
        const ValueId input = graph_.node(id).inputs[i];
        if (input == kNone || root_of(input) != candidate.root) continue;
        const ValueId fresh = view_again(input, again, inserted);
        graph_.node(id).inputs[i] = fresh;
      }
    }
    drop_if_unread(candidate);
  }

  // A node of which only late readers were left is not run twice, but later.
  void drop_if_unread(const Candidate& candidate) {
    const NodeId id = graph_.value(candidate.root).producer;
    if (storages_[candidate.root].uses.front() < candidate.next) return;
    for (ValueId output : graph_.node(id).outputs) {
      if (output == kNone) continue;
      const auto& fetches = borders_.fetches;
      // Another output may have readers of its own, and a view may be fetched.
      if (output != candidate.root && !storages_[output].uses.empty()) return;
      for (ValueId fetch : fetches) {
        if (root_of(fetch) == output) return;
      }
    }
    for (NodeId other : order_.nodes) {
      const auto& after = graph_.node(other).after;
      if (std::find(after.begin(), after.end(), id) != after.end()) return;
    }
    // Its views go with it.
    dropped_.insert(id);
    for (NodeId other : order_.nodes) {
      if (shares_bytes(other) && root_of(graph_.node(other).outputs[0]) == candidate.root)
        dropped_.insert(other);
    }
  }

  // The copy of a value of the candidate's storage; of a view it is made when it is asked for.
  ValueId view_again(ValueId value, std::map<ValueId, ValueId>& again,
                     std::vector<NodeId>& inserted) {
    const auto found = again.find(value);
    if (found != again.end()) return found->second;
    const NodeId id = graph_.value(value).producer;
    (void)view_again(graph_.node(id).inputs[0], again, inserted);
    inserted.push_back(copy_node(id, again));
    return again.at(value);
  }

  NodeId copy_node(NodeId id, std::map<ValueId, ValueId>& again) {
    std::vector<ValueId> inputs = graph_.node(id).inputs;
    for (ValueId& input : inputs) {
      const auto found = again.find(input);
      if (found != again.end()) input = found->second;
    }
    const size_t outputs = graph_.node(id).outputs.size();
    const NodeId made = graph_.add_node(*graph_.node(id).op, std::move(inputs),
                                        graph_.node(id).attrs, static_cast<int>(outputs));
    is_copy_.resize(graph_.nodes(), false);
    is_copy_[made] = true;
    const Node& from = graph_.node(id);
    Node& to = graph_.node(made);
    to.device = from.device;
    to.name = from.name.empty() ? "" : from.name + kAgain;
    to.source = from.source;
    to.first_row = from.first_row;
    for (size_t i = 0; i < outputs; ++i) {
      const ValueId old = from.outputs[i], fresh = to.outputs[i];
      if (old == kNone) {
        graph_.node(made).outputs[i] = kNone;
        continue;
      }
      graph_.value(fresh).type = graph_.value(old).type;
      graph_.set_value_name(fresh, graph_.describe(old) + kAgain);
      if (old < layouts_.of_value.size()) {
        layouts_.of_value.resize(graph_.values(), Layout::plain);
        layouts_.of_value[fresh] = layouts_.of_value[old];
      }
      again[old] = fresh;
    }
    return made;
  }

  void insert(const std::map<size_t, std::vector<NodeId>>& inserted) {
    std::vector<NodeId> listed;
    for (size_t p = 0; p < order_.nodes.size(); ++p) {
      const auto before = inserted.find(p);
      if (before != inserted.end())
        listed.insert(listed.end(), before->second.begin(), before->second.end());
      if (!dropped_.contains(order_.nodes[p])) listed.push_back(order_.nodes[p]);
    }
    order_.nodes = std::move(listed);
  }

  Graph& graph_;
  const Borders& borders_;
  Order& order_;
  LayoutChoice& layouts_;
  std::vector<size_t> position_;   // by node
  std::vector<Storage> storages_;  // by value; of roots
  size_t first_write_ = 0;         // copies come before it
  std::set<NodeId> dropped_;
  std::vector<bool> is_copy_;  // by node
};

}  // namespace

size_t computed_again(const Plan& plan) {
  size_t count = 0;
  for (const Partition& partition : plan.partitions) {
    for (const PlanInstruction& instruction : partition.instructions) {
      // An instruction may lack its first output.
      count +=
          std::any_of(instruction.outputs.begin(), instruction.outputs.end(), [&](uint32_t output) {
            return output != kNone && partition.values[output].name.ends_with(kAgain);
          });
    }
  }
  return count;
}

bool recompute(Part& part, Order& order, LayoutChoice& layouts, uint64_t bytes) {
  return order.nodes.size() <= kMostListed && Recomputation(part, order, layouts).shrink(bytes);
}

}  // namespace leat
