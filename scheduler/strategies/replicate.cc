// A node is *sharded* if what it computes differs between shards: it reads a shard's rows of the
// input, or something that does. It gets one copy for each shard, on the worker that holds the
// shard. All other nodes get one copy on each worker that the strategy says.
//
// The borders between both are the collectives. leat.AllReduce sums its S inputs in one binary tree
// over the shard indices (a tree of n splits at the largest power of two below n). The tree is the
// same for every number of workers; only the adders change. Hence the weights are the same to the
// bit. A worker adds values as soon as it has them, between one shard and the next, so
// that it holds as many sums as the tree has levels, and not a value of each shard. AllGather and
// Broadcast give every worker one value; ReduceScatter and AllToAll give each shard its own.
#include "scheduler/strategies/replicate.h"

#include <algorithm>
#include <bit>
#include <map>

#include "devices/base/text.h"
#include "ops/definitions/sum_tree.h"
#include "ops/graph/op.h"
#include "ops/graph/validate.h"
#include "scheduler/graph/device_name.h"
#include "scheduler/graph/op_name.h"
#include "scheduler/graph/pieces.h"

namespace leat {
namespace {

bool scatters(const Node& node) {
  return is_op(node, "leat.ReduceScatter") || is_op(node, "leat.AllToAll");
}

// The inputs of a collective over all shards: the value of each, and the sums that one worker alone
// makes, by the shards that are in them.
struct Leaves {
  std::vector<ValueId> values;
  std::map<std::pair<int, int>, ValueId> sums;  // of shards [first, last)
  ValueId of(int first, int last) const {
    return last - first == 1 ? values[static_cast<size_t>(first)] : sums.at({first, last});
  }
};

// The number of shards to the left of the split of a tree over n.
int left_of(int n) { return static_cast<int>(std::bit_floor(static_cast<unsigned>(n - 1))); }

// True if one worker holds all shards [first, last).
bool has_all(const Division& division, int first, int last) {
  return division.holders[static_cast<size_t>(first)] ==
         division.holders[static_cast<size_t>(last - 1)];
}

Status check_constraints(const Graph& from, const StrategyOptions& options,
                         const Division& division) {
  for (NodeId id = 0; id < from.nodes() && !division.placed_by_hand; ++id) {
    const std::string& constraint = from.node(id).device;
    for (const StrategyWorker& worker : options.workers) {
      const auto meets = [&](const auto& device) { return matches_device(constraint, device); };
      if (std::any_of(worker.devices.begin(), worker.devices.end(), meets)) continue;
      return invalid_argument(cat(from.describe_node(id), ": expected a constraint that all ",
                                  "workers meet, received '", constraint,
                                  "'; strategy single places nodes by constraints"));
    }
  }
  return {};
}

// All shards would write one file, and the last one would count.
Status check_saves(const Graph& from, const std::vector<bool>& sharded, int shards) {
  for (NodeId id = 0; id < from.nodes(); ++id) {
    if (shards > 1 && sharded[id] && is_op(from.node(id), "leat.Save")) {
      return invalid_argument(cat(from.describe_node(id), ": saves values that differ between the ",
                                  shards,
                                  " shards; expected an AllReduce or an AllGather in "
                                  "between"));
    }
  }
  return {};
}

class Replicator {
 public:
  Replicator(const Graph& from, const StrategyOptions& options, const Division& division)
      : from_(from),
        options_(options),
        division_(division),
        to_(from.catalogue()),
        shards_(options.shards),
        workers_(static_cast<int>(options.workers.size())),
        load_(options.workers.size(), 0) {
    to_.name = from.name;
  }

  Result<Graph> run(Borders& borders);

 private:
  bool sharded(ValueId value) const {
    return value != kNone && from_.value(value).producer != kNone &&
           sharded_[from_.value(value).producer];
  }
  // The device of a node of `worker` that the strategy adds itself, such as a sum.
  std::string device_of(int worker) const {
    return division_.placed_by_hand ? "" : options_.workers[static_cast<size_t>(worker)].task;
  }
  // The constraint of a node's copy: its own one, and the worker.
  std::string device_of(const Node& node, int worker) const {
    if (division_.placed_by_hand || node.device.empty())
      return division_.placed_by_hand ? node.device : device_of(worker);
    return cat(device_of(worker), "/", node.device);
  }
  bool share_a_worker(const Node& a, const Node& b, int worker) const;
  Status copy_for_shard(NodeId id, int shard);
  void copy_for_homes(NodeId id);
  void fill_from_first_home(NodeId id, std::vector<ValueId>& by_worker) const;
  std::vector<uint32_t> count_waves(const std::vector<NodeId>& order) const;
  NodeId copy_node(NodeId id, int copy, int worker);
  void list_waves(const std::vector<NodeId>& order);
  Status cross(NodeId id);
  void collect(NodeId id, int shard);
  void sum_shards(const Node& node, Leaves& leaves, int first, int last, int end);
  ValueId reduce(const Node& node, const Leaves& leaves, int owner, int& holder);
  ValueId all_reduce(const Node& node, const Leaves& leaves, int owner);
  std::vector<ElementPiece> pieces_to_reduce(NodeId id) const;
  std::vector<ValueId> all_reduce_pieces(NodeId id);
  std::vector<ValueId> reduce_equal(NodeId id);
  ValueId all_gather(NodeId id);
  std::vector<ValueId> reduce_scatter(NodeId id);
  std::vector<ValueId> all_to_all(const Node& node);
  NodeId add(std::string_view op, std::vector<ValueId> inputs, Attrs attrs, int outputs, int worker,
             uint32_t source);
  TreeOfSums tree(const Node& node, const Leaves& leaves, int first, int last, int owner,
                  int& holder);
  ValueId combine_two(const Node& node, ValueId a, ValueId b, int worker);
  ValueId add_up(const Node& node, const TreeOfSums& tree, int worker);
  ValueId combine(const Node& node, std::string_view op, ValueId a, ValueId b, int worker);
  int choose_owner(NodeId collective, int64_t elements);
  int choose_owner(NodeId collective);

  const Graph& from_;
  const StrategyOptions& options_;
  const Division& division_;
  Graph to_;
  const int shards_, workers_;
  std::vector<bool> sharded_;                     // by node
  std::vector<std::vector<ValueId>> copies_;      // by value: by shard, or by worker
  std::vector<std::vector<NodeId>> node_copies_;  // by node
  std::vector<uint64_t> load_;                    // bytes that each worker reduces
  // The nodes between two borders of shards.
  struct Wave {
    std::vector<NodeId> common, sharded, collectives;
  };
  std::vector<Wave> waves_;
  // Of a collective that reduces.
  struct Collected {
    std::vector<ElementPiece> pieces;  // none: the whole
    std::vector<Leaves> leaves;        // by piece
  };
  std::map<NodeId, Collected> collected_;
};

// Copies a node. `copy` is its index among the copies: the shard of a sharded node, else the
// worker.
NodeId Replicator::copy_node(NodeId id, int copy, int worker) {
  const Node& old = from_.node(id);
  std::vector<ValueId> inputs;
  for (ValueId input : old.inputs) {
    if (input == kNone) {
      inputs.push_back(kNone);
    } else {
      const auto& copies = copies_[input];
      const bool is_input = from_.value(input).producer == kNone;
      inputs.push_back(is_input         ? copies[0]
                       : sharded(input) ? copies[static_cast<size_t>(copy)]
                                        : copies[static_cast<size_t>(worker)]);
    }
  }
  const NodeId made = to_.add_node(*old.op, std::move(inputs), old.attrs, 0);
  for (size_t i = 0; i < old.outputs.size(); ++i) {
    if (old.outputs[i] == kNone) continue;
    const ValueId output = to_.ensure_output(made, static_cast<int>(i));
    to_.value(output).type = from_.value(old.outputs[i]).type;
    to_.set_value_name(output, from_.value_name(old.outputs[i]));
    copies_[old.outputs[i]][static_cast<size_t>(copy)] = output;
  }
  Node& node = to_.node(made);
  node.device = device_of(old, worker);
  node.name = old.name;
  node.source = old.source;
  for (NodeId before : old.after) {
    // A control edge goes to the copies on the same worker. If there is none, it goes to all
    // copies.
    std::vector<NodeId> here;
    for (NodeId copy_before : node_copies_[before]) {
      if (share_a_worker(to_.node(copy_before), node, worker)) here.push_back(copy_before);
    }
    const auto& befores = here.empty() ? node_copies_[before] : here;
    node.after.insert(node.after.end(), befores.begin(), befores.end());
  }
  node_copies_[id].push_back(made);
  return made;
}

// True if `a` is where `b` is, a node of `worker`.
bool Replicator::share_a_worker(const Node& a, const Node& b, int worker) const {
  if (division_.placed_by_hand) return a.device == b.device;
  const std::string task = device_of(worker);
  return a.device == task || a.device.starts_with(cat(task, "/"));
}

Status Replicator::copy_for_shard(NodeId id, int shard) {
  const int pinned = division_.pinned.empty() ? -1 : division_.pinned[id];
  const int worker = pinned >= 0 ? pinned : division_.holders[static_cast<size_t>(shard)];
  const NodeId made = copy_node(id, shard, worker);
  Node& node = to_.node(made);
  if (!node.op->random && !node.op->per_shard) return {};
  // The first row of this shard in the global tensor.
  const SymbolicShape& shape = from_.value(from_.node(id).outputs[0]).type.shape;
  const auto rows = shape.rank() > 0 ? constant_of(shape[0]) : std::optional<int64_t>(0);
  if (!rows)
    return failed_precondition(cat(from_.describe_node(id), ": expected a known number of rows"));
  node.first_row = shard * *rows;
  return {};
}

// AllReduces on the longest way to each node; an AllReduce belongs to the wave that it ends.
std::vector<uint32_t> Replicator::count_waves(const std::vector<NodeId>& order) const {
  std::vector<uint32_t> waves(from_.nodes(), 0);
  for (NodeId id : order) {
    const auto follow = [&](NodeId before) {
      waves[id] = std::max(waves[id], waves[before] + (is_collective(from_.node(before)) ? 1 : 0));
    };
    for (ValueId input : from_.node(id).inputs) {
      if (input != kNone && from_.value(input).producer != kNone)
        follow(from_.value(input).producer);
    }
    for (NodeId before : from_.node(id).after) follow(before);
  }
  return waves;
}

// Sorts the nodes into waves. A ReduceScatter or AllToAll is sharded and a collective at once, so
// it stands in both lists.
void Replicator::list_waves(const std::vector<NodeId>& order) {
  const auto waves = count_waves(order);
  for (NodeId id : order) {
    if (waves_.size() <= waves[id]) waves_.resize(waves[id] + 1);
    Wave& wave = waves_[waves[id]];
    if (is_collective(from_.node(id))) wave.collectives.push_back(id);
    if (sharded_[id])
      wave.sharded.push_back(id);
    else if (!is_collective(from_.node(id)))
      wave.common.push_back(id);
  }
}

void Replicator::copy_for_homes(NodeId id) {
  for (int w : division_.homes[id]) copy_node(id, w, w);
  for (ValueId output : from_.node(id).outputs) {
    if (output != kNone) fill_from_first_home(id, copies_[output]);
  }
}

void Replicator::fill_from_first_home(NodeId id, std::vector<ValueId>& by_worker) const {
  const ValueId first = by_worker[static_cast<size_t>(division_.homes[id][0])];
  std::replace(by_worker.begin(), by_worker.end(), kNone, first);
}

// Chooses the worker that adds up so many elements: the one that the strategy names, or the one
// with the least to add so far.
int Replicator::choose_owner(NodeId collective, int64_t elements) {
  const DType dtype = from_.value(from_.node(collective).inputs[0]).type.dtype;
  const int owner = division_.owners[collective];
  const auto it = owner < 0 ? std::min_element(load_.begin(), load_.end()) : load_.begin() + owner;
  // One byte more, so that values without bytes are spread, too.
  *it += static_cast<uint64_t>(elements) * dtype_size(dtype) + 1;
  return static_cast<int>(it - load_.begin());
}
int Replicator::choose_owner(NodeId collective) {
  const auto shape = from_.value(from_.node(collective).inputs[0]).type.shape.concrete();
  return choose_owner(collective, shape ? shape->elements() : 0);
}

NodeId Replicator::add(std::string_view op, std::vector<ValueId> inputs, Attrs attrs, int outputs,
                       int worker, uint32_t source) {
  const NodeId made =
      to_.add_node(*to_.catalogue().find(op), std::move(inputs), std::move(attrs), outputs);
  to_.node(made).device = device_of(worker);
  to_.node(made).source = source;
  return made;
}

ValueId Replicator::combine(const Node& node, std::string_view op, ValueId a, ValueId b,
                            int worker) {
  return to_.node(add(op, {a, b}, {}, 1, worker, node.source)).outputs[0];
}

// Of sums alone: what a tree adds up to, on a worker.
ValueId Replicator::add_up(const Node& node, const TreeOfSums& tree, int worker) {
  if (tree.leaves.size() == 1) return tree.leaves[0];
  if (tree.leaves.size() == 2) return combine(node, "Add", tree.leaves[0], tree.leaves[1], worker);
  const Attrs attrs{{"order", tree.order}};
  return to_.node(add("leat.SumTree", tree.leaves, attrs, 1, worker, node.source)).outputs[0];
}

// Workers combine what they have of a subtree as it comes; the owner adds up the rest, what it gets
// from others, in one go.
TreeOfSums Replicator::tree(const Node& node, const Leaves& leaves, int first, int last, int owner,
                            int& holder) {
  if (has_all(division_, first, last)) {
    holder = division_.holders[static_cast<size_t>(first)];
    return TreeOfSums::leaf(leaves.of(first, last));
  }
  const int middle = first + left_of(last - first);
  int left_holder = 0, right_holder = 0;
  TreeOfSums a = tree(node, leaves, first, middle, owner, left_holder);
  TreeOfSums b = tree(node, leaves, middle, last, owner, right_holder);
  holder = left_holder == right_holder ? left_holder : owner;
  const std::string op = attr_string(node.attrs, "op", "sum");
  if (op == "max" || op == "min") {
    const auto extreme = op == "max" ? "Max" : "Min";
    return TreeOfSums::leaf(combine(node, extreme, a.leaves[0], b.leaves[0], holder));
  }
  TreeOfSums sum = TreeOfSums::sum(std::move(a), b);
  const bool tensor = from_.value(node.inputs[0]).type.kind == ValueKind::tensor;
  if (left_holder != right_holder && tensor) return sum;
  return TreeOfSums::leaf(add_up(node, sum, holder));
}

ValueId Replicator::combine_two(const Node& node, ValueId a, ValueId b, int worker) {
  const std::string op = attr_string(node.attrs, "op", "sum");
  return combine(node, op == "max" ? "Max" : op == "min" ? "Min" : "Add", a, b, worker);
}

// Combines what ends before shard `end`, of the tree over [first, last), and is on one worker.
void Replicator::sum_shards(const Node& node, Leaves& leaves, int first, int last, int end) {
  if (last - first == 1) return;
  const int middle = first + left_of(last - first);
  if (end <= middle)
    sum_shards(node, leaves, first, middle, end);
  else
    sum_shards(node, leaves, middle, last, end);
  if (last != end || !has_all(division_, first, last)) return;
  leaves.sums[{first, last}] = combine_two(node, leaves.of(first, middle), leaves.of(middle, last),
                                           division_.holders[static_cast<size_t>(first)]);
}

// Takes one more shard's input of a collective.
void Replicator::collect(NodeId id, int shard) {
  const Node& node = from_.node(id);
  const bool reduces = is_op(node, "leat.AllReduce");
  if (!sharded(node.inputs[0]) || !(reduces || is_op(node, "leat.ReduceScatter"))) return;
  Collected& collected = collected_[id];
  if (shard == 0) {
    if (reduces) collected.pieces = pieces_to_reduce(id);
    collected.leaves.resize(std::max<size_t>(1, collected.pieces.size()));
  }
  const ValueId value = copies_[node.inputs[0]][static_cast<size_t>(shard)];
  for (size_t p = 0; p < collected.leaves.size(); ++p) {
    ValueId leaf = value;
    if (!collected.pieces.empty()) {
      const ElementPiece& piece = collected.pieces[p];
      const NodeId cut =
          add("leat.Range", {value}, {{"first", piece.first}, {"count", piece.count}}, 1,
              division_.holders[static_cast<size_t>(shard)], node.source);
      leaf = to_.node(cut).outputs[0];
    }
    collected.leaves[p].values.push_back(leaf);
    sum_shards(node, collected.leaves[p], 0, shards_, shard + 1);
  }
}

// The sum (or maximum, ...) over the shards; `holder` is the worker that has it.
ValueId Replicator::reduce(const Node& node, const Leaves& leaves, int owner, int& holder) {
  const TreeOfSums sum = tree(node, leaves, 0, shards_, owner, holder);
  return add_up(node, sum, holder);
}

ValueId Replicator::all_reduce(const Node& node, const Leaves& leaves, int owner) {
  int holder = 0;
  const ValueId sum = reduce(node, leaves, owner, holder);
  if (attr_string(node.attrs, "op", "sum") != "mean" || shards_ == 1) return sum;
  const DType dtype = from_.value(node.inputs[0]).type.dtype;
  const NodeId scale = add("Constant", {}, {{"value", Tensor::scalar_of(dtype, 1.0 / shards_)}}, 1,
                           holder, node.source);
  return combine(node, "Mul", sum, to_.node(scale).outputs[0], holder);
}

// A value that is combined element by element may be cut anywhere, and no bit changes.
std::vector<ElementPiece> Replicator::pieces_to_reduce(NodeId id) const {
  const ValueType& type = from_.value(from_.node(id).inputs[0]).type;
  const auto shape = type.shape.concrete();
  if (workers_ == 1 || division_.placed_by_hand || division_.owners[id] >= 0 || !shape ||
      type.kind != ValueKind::tensor)
    return {};
  return cut_in_pieces(*shape, type.dtype);
}

// Each piece has an owner, a worker that gets it from all shards and gives the sum to all workers
// (reduce-scatter, then all-gather).
std::vector<ValueId> Replicator::all_reduce_pieces(NodeId id) {
  const Node& node = from_.node(id);
  const Collected& collected = collected_[id];
  std::vector<ValueId> sums;
  for (size_t p = 0; p < collected.pieces.size(); ++p) {
    const int owner = choose_owner(id, collected.pieces[p].count);
    sums.push_back(all_reduce(node, collected.leaves[p], owner));
  }
  const auto shape = *from_.value(node.inputs[0]).type.shape.concrete();
  const Attrs whole{{"shape", std::vector<int64_t>(shape.begin(), shape.end())}};
  std::vector<ValueId> joined;
  for (int w = 0; w < workers_; ++w)
    joined.push_back(to_.node(add("leat.Join", sums, whole, 1, w, node.source)).outputs[0]);
  return joined;
}

// Of a value that is the same on all shards, such as a gradient of zero: nothing crosses.
std::vector<ValueId> Replicator::reduce_equal(NodeId id) {
  const Node& node = from_.node(id);
  std::vector<ValueId> values = copies_[node.inputs[0]];
  values.resize(static_cast<size_t>(workers_), values[0]);  // an input of the graph has one copy
  if (attr_string(node.attrs, "op", "sum") != "sum" || shards_ == 1) return values;
  const DType dtype = from_.value(node.inputs[0]).type.dtype;
  std::vector<ValueId> sums(values.size(), kNone);
  for (int w : division_.homes[id]) {
    const NodeId times =
        add("Constant", {}, {{"value", Tensor::scalar_of(dtype, shards_)}}, 1, w, node.source);
    const auto at = static_cast<size_t>(w);
    sums[at] = combine(node, "Mul", values[at], to_.node(times).outputs[0], w);
  }
  fill_from_first_home(id, sums);
  return sums;
}

// The values of all shards side by side, in the order of shards, on one worker.
ValueId Replicator::all_gather(NodeId id) {
  const Node& node = from_.node(id);
  const Attrs attrs{{"axis", attr_int(node.attrs, "axis")}};
  const int owner = choose_owner(id);
  return to_.node(add("Concat", copies_[node.inputs[0]], attrs, 1, owner, node.source)).outputs[0];
}

// The sum over the shards, cut into a part for each shard.
std::vector<ValueId> Replicator::reduce_scatter(NodeId id) {
  const Node& node = from_.node(id);
  int holder = 0;
  const ValueId sum = reduce(node, collected_[id].leaves[0], choose_owner(id), holder);
  const Attrs attrs{{"axis", attr_int(node.attrs, "axis")}, {"num_outputs", int64_t{shards_}}};
  return to_.node(add("Split", {sum}, attrs, shards_, holder, node.source)).outputs;
}

// Each shard cuts its value into a part for each receiver, and each receiver joins the parts in the
// order of the senders.
std::vector<ValueId> Replicator::all_to_all(const Node& node) {
  const Attrs split{{"axis", attr_int(node.attrs, "split_axis")},
                    {"num_outputs", int64_t{shards_}}};
  const Attrs concat{{"axis", attr_int(node.attrs, "concat_axis")}};
  std::vector<std::vector<ValueId>> parts(static_cast<size_t>(shards_));  // by receiver
  for (int s = 0; s < shards_; ++s) {
    const ValueId whole = copies_[node.inputs[0]][static_cast<size_t>(s)];
    const NodeId made = add("Split", {whole}, split, shards_,
                            division_.holders[static_cast<size_t>(s)], node.source);
    for (size_t to = 0; to < parts.size(); ++to) parts[to].push_back(to_.node(made).outputs[to]);
  }
  std::vector<ValueId> out;
  for (size_t to = 0; to < parts.size(); ++to) {
    out.push_back(to_.node(add("Concat", parts[to], concat, 1, division_.holders[to], node.source))
                      .outputs[0]);
  }
  return out;
}

// Replaces a collective by what it does, once every shard's input is there.
Status Replicator::cross(NodeId id) {
  const Node& node = from_.node(id);
  const ValueId input = node.inputs[0], output = node.outputs[0];
  if (!sharded(input) && !is_op(node, "leat.AllReduce")) {
    return invalid_argument(cat(from_.describe_node(id),
                                ": expected an input that differs between shards, '",
                                from_.describe(input), "' is the same on all"));
  }
  if (const int64_t replicas = attr_int(node.attrs, "replicas", shards_); replicas != shards_) {
    return invalid_argument(cat(from_.describe_node(id), ": replicas: expected ", shards_,
                                ", the number of shards, received ", replicas));
  }
  if (const int64_t root = attr_int(node.attrs, "root"); root >= shards_) {
    return invalid_argument(cat(from_.describe_node(id), ": root: expected one of ", shards_,
                                " shards, received ", root));
  }
  const bool reduces = is_op(node, "leat.AllReduce");
  if (!sharded(input)) {
    copies_[output] = reduce_equal(id);
  } else if (reduces && !collected_[id].pieces.empty()) {
    copies_[output] = all_reduce_pieces(id);
    for (ValueId made : copies_[output]) to_.set_value_name(made, from_.value_name(output));
  } else if (is_op(node, "leat.ReduceScatter")) {
    copies_[output] = reduce_scatter(id);
  } else if (is_op(node, "leat.AllToAll")) {
    copies_[output] = all_to_all(node);
  } else {
    const ValueId made = reduces ? all_reduce(node, collected_[id].leaves[0], choose_owner(id))
                         : is_op(node, "leat.AllGather")
                             ? all_gather(id)
                             : copies_[input][static_cast<size_t>(attr_int(node.attrs, "root"))];
    to_.set_value_name(made, from_.value_name(output));
    copies_[output].assign(static_cast<size_t>(workers_), made);
  }
  for (ValueId value : copies_[output]) {
    const NodeId producer = to_.value(value).producer;
    if (producer != kNone) node_copies_[id].push_back(producer);
  }
  collected_.erase(id);
  return {};
}

Result<Graph> Replicator::run(Borders& borders) {
  LEAT_RETURN_IF_ERROR(check_constraints(from_, options_, division_));
  LEAT_ASSIGN_OR_RETURN(const auto order, from_.topological_order());
  LEAT_ASSIGN_OR_RETURN(sharded_, find_sharded(from_, order));
  LEAT_RETURN_IF_ERROR(check_saves(from_, sharded_, shards_));
  copies_.resize(from_.values());
  for (ValueId v = 0; v < from_.values(); ++v)
    copies_[v].assign(static_cast<size_t>(sharded(v) ? shards_ : workers_), kNone);
  node_copies_.resize(from_.nodes());
  for (SymbolId s = 0; s < from_.symbols(); ++s) to_.symbol(from_.symbol_info(s).name);
  for (ValueId input : from_.inputs()) {
    copies_[input] = {to_.add_input(from_.value_name(input), from_.value(input).type)};
  }
  // Wave by wave, a shard whole before the next one: what a worker computes for one shard stands
  // together, and its memory is used again for the next. A wave ends where a value crosses shards.
  list_waves(order);
  for (const Wave& wave : waves_) {
    for (NodeId id : wave.common) copy_for_homes(id);
    for (int s = 0; s < shards_; ++s) {
      for (NodeId id : wave.sharded) LEAT_RETURN_IF_ERROR(copy_for_shard(id, s));
      for (NodeId id : wave.collectives) collect(id, s);
    }
    for (NodeId id : wave.collectives) LEAT_RETURN_IF_ERROR(cross(id));
  }
  for (ValueId& feed : borders.feeds) feed = copies_[feed][0];
  for (ValueId& fetch : borders.fetches) {
    if (sharded(fetch) && shards_ > 1) {
      return invalid_argument(
          cat("fetch '", from_.describe(fetch), "': differs between the ", shards_,
              " shards; expected a value that is the same on all (the output of an AllReduce)"));
    }
    fetch = copies_[fetch][0];
  }
  std::vector<NodeId> targets;
  for (NodeId target : borders.targets)
    targets.insert(targets.end(), node_copies_[target].begin(), node_copies_[target].end());
  borders.targets = std::move(targets);
  return std::move(to_);
}

}  // namespace

bool is_collective(const Node& node) {
  return is_op(node, "leat.AllReduce") || is_op(node, "leat.AllGather") ||
         is_op(node, "leat.Broadcast") || scatters(node);
}

Result<std::vector<bool>> find_sharded(const Graph& graph, const std::vector<NodeId>& order) {
  std::vector<bool> sharded(graph.nodes(), false);
  for (NodeId id : order) {
    const Node& node = graph.node(id);
    if (is_collective(node)) {
      sharded[id] = scatters(node);
      continue;
    }
    const auto differs = [&](ValueId v) {
      return v != kNone && graph.value(v).producer != kNone && sharded[graph.value(v).producer];
    };
    sharded[id] =
        node.op->per_shard || std::any_of(node.inputs.begin(), node.inputs.end(), differs);
    if (sharded[id] && !node.op->writes.empty()) {
      return invalid_argument(cat(graph.describe_node(id),
                                  ": writes a variable from what differs between shards; expected "
                                  "an AllReduce in between"));
    }
  }
  return sharded;
}

std::string resource_name(const Graph& graph, ValueId value) {
  if (value == kNone || graph.value(value).producer == kNone) return {};
  const Node& producer = graph.node(graph.value(value).producer);
  return producer.op->make_resource ? attr_string(producer.attrs, "name") : std::string();
}

Status check_shards(const StrategyOptions& options) {
  if (options.shards < 1)
    return invalid_argument(cat("shards: expected at least 1, received ", options.shards));
  if (static_cast<size_t>(options.shards) < options.workers.size()) {
    return invalid_argument(cat("workers: expected at most as many as shards (", options.shards,
                                "), received ", options.workers.size()));
  }
  return {};
}

std::vector<int> blocks_of_shards(const StrategyOptions& options) {
  const int workers = static_cast<int>(options.workers.size());
  std::vector<int> holders;
  for (int w = 0; w < workers; ++w)
    holders.resize(static_cast<size_t>(first_shard(w + 1, workers, options.shards)), w);
  return holders;
}

Result<Graph> replicate(const Graph& graph, Borders& borders, const StrategyOptions& options,
                        const Division& division) {
  return Replicator(graph, options, division).run(borders);
}

}  // namespace leat
