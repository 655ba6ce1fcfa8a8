// A table of which a step touches few rows is not moved as a whole. Its rows are read where it is,
//
//   Gather(Read(table), ids)                        ->  ReadRows(table, ids)
//
// and its gradient goes as lines and their ids, which are added up and applied there:
//
//   AllReduce(GatherGrad(dy, ids) + ...)            ->  SumRows(AllGather(dy), AllGather(ids))
//   Apply(table, that sum, lr)                      ->  Apply(table, AllGather(dy), lr, ..., ids)
//
// The last one where the update leaves all other rows as they are; else SumRows makes the gradient
// dense beside the table. Both add in the order of the dense gradient, so that no bit changes: this
// pass is about bytes and time alone. It leaves a table as it is of which the ids of all shards
// could be most rows.
#include <algorithm>
#include <map>
#include <set>

#include "ops/definitions/row_sum.h"
#include "ops/graph/op.h"
#include "ops/graph/validate.h"
#include "scheduler/compile/passes.h"
#include "scheduler/graph/op_name.h"
#include "scheduler/strategies/replicate.h"

namespace leat {
namespace {

std::vector<int64_t> sizes_of(const Shape& shape) { return {shape.begin(), shape.end()}; }

// A gradient of rows as it was found: its uses of the table, in the order in which they are added.
struct Found {
  std::vector<NodeId> uses;  // GatherGrads
  Shape table;
  bool crosses = false;  // shards
};

// And as values of the new graph.
struct Rows {
  ValueId values = kNone, ids = kNone;
  Attrs attrs;
};

class Sparsifier {
 public:
  Sparsifier(const Graph& graph, const Borders& borders, int shards)
      : graph_(graph), shards_(shards), rewriter_(graph), readers_(graph.values()) {
    for (ValueId fetch : borders.fetches) held_.insert(fetch);
    for (ValueId output : graph.outputs()) held_.insert(output);
    for (NodeId id = 0; id < graph.nodes(); ++id) {
      for (ValueId input : graph.node(id).inputs) {
        if (input != kNone) readers_[input].push_back(id);
      }
      for (NodeId before : graph.node(id).after) awaited_.insert(before);
    }
    for (NodeId target : borders.targets) awaited_.insert(target);
  }

  Result<Graph> run(Borders& borders) {
    LEAT_ASSIGN_OR_RETURN(const auto order, graph_.topological_order());
    // With one shard a graph may write what others would have to reduce first.
    auto sharded = find_sharded(graph_, order);
    sharded_ = sharded.ok() ? std::move(*sharded) : std::vector<bool>(graph_.nodes(), false);
    for (NodeId id : order) {
      const Node& node = graph_.node(id);
      if (is_op(node, "Gather") && reads_rows(node))
        read_rows(id);
      else if (is_op(node, "leat.AllReduce"))
        all_reduce(id);
      else
        update(id);
    }
    LEAT_ASSIGN_OR_RETURN(Graph out, rewriter_.finish(borders));
    LEAT_ASSIGN_OR_RETURN(out, prune(std::move(out), borders));
    LEAT_RETURN_IF_ERROR(Inference(out).run());
    return out;
  }

 private:
  const Node* producer(ValueId value) const {
    const NodeId id = value == kNone ? kNone : graph_.value(value).producer;
    return id == kNone ? nullptr : &graph_.node(id);
  }
  bool sharded(ValueId value) const {
    const NodeId id = graph_.value(value).producer;
    return id != kNone && sharded_[id];
  }
  const SymbolicShape& shape(ValueId value) const { return graph_.value(value).type.shape; }
  // How many ids; empty if that is not known.
  std::optional<int64_t> count(ValueId ids) const {
    const auto concrete = shape(ids).concrete();
    return concrete ? std::optional(concrete->elements()) : std::nullopt;
  }
  bool along_rows(const Node& node, int rank) const {
    const int64_t axis = attr_int(node.attrs, "axis");
    return rank > 0 && (axis == 0 || axis == -rank);
  }

  // --- reading ---

  // Does this Gather read a variable that nothing reads but Gathers of few of its rows?
  bool reads_rows(const Node& gather) const {
    const Node* read = producer(gather.inputs[0]);
    if (!read || !is_op(*read, "leat.Read") || held_.count(read->outputs[0])) return false;
    const ValueId table = read->outputs[0];
    const auto rows = shape(table).concrete();
    if (!rows || rows->rank() == 0 || awaited_.count(graph_.value(table).producer)) return false;
    int64_t ids = 0;
    for (NodeId reader : readers_[table]) {
      const Node& other = graph_.node(reader);
      if (!is_op(other, "Gather") || !along_rows(other, rows->rank()) || other.inputs[1] == table)
        return false;
      if (!other.device.empty() && other.device != read->device) return false;
      const auto n = count(other.inputs[1]);
      if (!n) return false;
      ids += *n * (sharded(other.inputs[1]) ? shards_ : 1);
    }
    return ids <= (*rows)[0];
  }

  void read_rows(NodeId id) {
    const Node& gather = graph_.node(id);
    const NodeId read = graph_.value(gather.inputs[0]).producer;
    const ValueId table = rewriter_.value(graph_.node(read).inputs[0]);
    const NodeId made = add("leat.ReadRows", {table, rewriter_.value(gather.inputs[1])}, {}, id);
    Node& node = rewriter_.to().node(made);
    node.device = graph_.node(read).device;
    for (const NodeId from : {read, id}) {
      for (NodeId before : graph_.node(from).after) node.after.push_back(rewriter_.node(before));
    }
    replace(id, made);
  }

  // --- gradients ---

  // The GatherGrads whose sum a value is, left to right; false if it is anything else, or if some
  // part of it is read elsewhere.
  bool uses_of(ValueId value, std::vector<NodeId>& uses) const {
    const Node* node = producer(value);
    const NodeId id = graph_.value(value).producer;
    if (!node || readers_[value].size() != 1 || held_.count(value) || !node->after.empty() ||
        awaited_.count(id)) {
      return false;
    }
    if (is_op(*node, "leat.GatherGrad")) {
      uses.push_back(id);
      return true;
    }
    // A sum within the right operand would be another tree.
    const Node* right = is_op(*node, "Add") ? producer(node->inputs[1]) : nullptr;
    return right && is_op(*right, "leat.GatherGrad") && uses_of(node->inputs[0], uses) &&
           uses_of(node->inputs[1], uses);
  }

  std::optional<Found> find(ValueId value, bool all_reduced) const {
    Found found;
    const auto table = shape(value).concrete();
    if (!table || table->rank() == 0 || !uses_of(value, found.uses)) return std::nullopt;
    found.table = *table;
    found.crosses = all_reduced && sharded(value);
    if (all_reduced && !found.crosses && shards_ > 1) return std::nullopt;
    const Node& first = graph_.node(found.uses[0]);
    int64_t ids = 0;
    for (NodeId id : found.uses) {
      const Node& use = graph_.node(id);
      const auto n = count(use.inputs[1]);
      if (!n || !along_rows(use, table->rank()) || !(shape(use.outputs[0]) == shape(value)) ||
          graph_.value(use.inputs[1]).type.dtype != graph_.value(first.inputs[1]).type.dtype ||
          use.device != first.device) {
        return std::nullopt;
      }
      if (found.crosses && !(sharded(use.inputs[0]) && sharded(use.inputs[1]))) return std::nullopt;
      ids += *n;
    }
    if (ids * (found.crosses ? shards_ : 1) > (*table)[0]) return std::nullopt;
    return found;
  }

  // The lines and ids of all uses and shards, one after the other.
  Rows gather(const Found& found) {
    Rows rows;
    std::vector<ValueId> values, ids;
    std::vector<int64_t> parts;
    std::vector<int64_t> line = sizes_of(found.table);
    for (NodeId id : found.uses) {
      const Node& use = graph_.node(id);
      parts.push_back(*count(use.inputs[1]));
      line[0] = parts.back();
      values.push_back(reshaped(use.inputs[0], line, id));
      ids.push_back(reshaped(use.inputs[1], {line[0]}, id));
    }
    const NodeId first = found.uses[0];
    rows.values = together(std::move(values), found.crosses, first);
    rows.ids = together(std::move(ids), found.crosses, first);
    if (found.crosses) rows.attrs["shards"] = int64_t{shards_};
    if (parts.size() > 1) rows.attrs["parts"] = std::move(parts);
    return rows;
  }

  ValueId reshaped(ValueId value, const std::vector<int64_t>& to, NodeId like) {
    const auto from = shape(value).concrete();
    if (from && sizes_of(*from) == to) return rewriter_.value(value);
    const Tensor wanted = Tensor::of<int64_t>({static_cast<int64_t>(to.size())}, to);
    const ValueId constant = result(add("Constant", {}, {{"value", wanted}}, like));
    return result(add("Reshape", {rewriter_.value(value), constant}, {}, like));
  }

  ValueId together(std::vector<ValueId> values, bool crosses, NodeId like) {
    ValueId all = values[0];
    if (values.size() > 1)
      all = result(add("Concat", std::move(values), {{"axis", int64_t{0}}}, like));
    if (crosses) all = result(add("leat.AllGather", {all}, {{"replicas", int64_t{shards_}}}, like));
    return all;
  }

  NodeId sum_rows(const Rows& rows, const Found& found, NodeId like) {
    Attrs attrs = rows.attrs;
    attrs["rows"] = found.table[0];
    return add("leat.SumRows", {rows.values, rows.ids}, std::move(attrs), like);
  }

  void all_reduce(NodeId id) {
    const Node& node = graph_.node(id);
    const bool sums = attr_string(node.attrs, "op", "sum") == "sum" && node.after.empty();
    const auto found = sums ? find(node.inputs[0], true) : std::nullopt;
    if (!found) {
      rewriter_.copy(id);
      return;
    }
    const Rows rows = gather(*found);
    replace(id, sum_rows(rows, *found, id));
    rows_.emplace(node.outputs[0], rows);
  }

  // The inputs of an op that are a gradient and, for one by rows, its ids; kNone if it is no such
  // op.
  std::pair<size_t, size_t> gradient_operands(const OpDef& op) const {
    const auto at = [&](std::string_view name) {
      const auto named = [&](const Operand& operand) { return operand.name == name; };
      const auto it = std::find_if(op.inputs.begin(), op.inputs.end(), named);
      return it == op.inputs.end() ? size_t{kNone} : static_cast<size_t>(it - op.inputs.begin());
    };
    if (op.writes.empty()) return {kNone, kNone};
    return {at("grad"), at("ids")};
  }

  // Any other node. An update takes its gradient by rows if it can.
  void update(NodeId id) {
    const Node& node = graph_.node(id);
    const auto [grad, ids] = gradient_operands(*node.op);
    const bool updates = grad != kNone && ids != kNone && node.inputs.size() <= ids;
    if (updates && !rows_.count(node.inputs[grad])) {
      if (const auto found = find(node.inputs[grad], false)) {
        const Rows rows = gather(*found);
        const NodeId sum = sum_rows(rows, *found, id);
        // Beside the table.
        if (const Node* table = producer(node.inputs[0]))
          rewriter_.to().node(sum).device = node.device.empty() ? table->device : node.device;
        rewriter_.map_value(node.inputs[grad], result(sum));
        rows_.emplace(node.inputs[grad], rows);
      }
    }
    const NodeId made = rewriter_.copy(id);
    const auto it = updates ? rows_.find(node.inputs[grad]) : rows_.end();
    const bool plain_sgd = is_op(node, "leat.ApplySgd");
    if (it == rows_.end() || !changes_touched_rows_only(plain_sgd, node.attrs)) return;
    Node& copy = rewriter_.to().node(made);
    copy.inputs[grad] = it->second.values;
    copy.inputs.resize(ids, kNone);
    copy.inputs.push_back(it->second.ids);
    for (const auto& [name, attr] : it->second.attrs) copy.attrs.emplace(name, attr);
  }

  // --- writing ---

  NodeId add(std::string_view op, std::vector<ValueId> inputs, Attrs attrs, NodeId like) {
    const NodeId made =
        rewriter_.add(*graph_.catalogue().find(op), std::move(inputs), std::move(attrs), 1);
    Node& node = rewriter_.to().node(made);
    node.device = graph_.node(like).device;
    node.name = graph_.node(like).name;
    node.source = graph_.node(like).source;
    return made;
  }
  ValueId result(NodeId node) const { return rewriter_.to().node(node).outputs[0]; }
  void replace(NodeId id, NodeId made) {
    const ValueId old = graph_.node(id).outputs[0];
    rewriter_.to().set_value_name(result(made), graph_.value_name(old));
    rewriter_.to().value(result(made)).type = graph_.value(old).type;
    rewriter_.map_value(old, result(made));
    rewriter_.map_node(id, made);
  }

  const Graph& graph_;
  const int shards_;
  Rewriter rewriter_;
  std::vector<std::vector<NodeId>> readers_;  // by value; a node that reads it twice is there twice
  std::set<ValueId> held_;                    // the caller asks for them
  std::set<NodeId> awaited_;                  // others come after them, or they are targets
  std::vector<bool> sharded_;                 // by node
  std::map<ValueId, Rows> rows_;              // by sum
};

}  // namespace

Result<Graph> sparsify(Graph graph, Borders& borders, int shards) {
  const Catalogue& catalogue = graph.catalogue();
  const OpDef *gather = catalogue.find("Gather"), *gradient = catalogue.find("leat.GatherGrad");
  bool looks_up = false;
  for (NodeId id = 0; id < graph.nodes(); ++id) {
    const OpDef* op = graph.node(id).op;
    looks_up = looks_up || op == gather || op == gradient;
  }
  for (const char* op : {"Gather", "leat.GatherGrad", "leat.ReadRows", "leat.SumRows"})
    looks_up = looks_up && catalogue.find(op);
  if (!looks_up) return prune(std::move(graph), borders);
  return Sparsifier(graph, borders, shards).run(borders);
}

}  // namespace leat
