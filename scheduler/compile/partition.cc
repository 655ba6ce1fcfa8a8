#include <algorithm>
#include <map>
#include <unordered_map>

#include "devices/base/text.h"
#include "ops/op.h"
#include "scheduler/compile/passes.h"
#include "scheduler/runtime/op_name.h"

namespace leat {
namespace {

class Partitioner {
 public:
  Partitioner(const Graph& graph, const Borders& borders, const std::vector<std::string>& devices)
      : graph_(graph), borders_(borders), devices_(devices) {
    for (size_t d = 0; d < devices.size(); ++d) numbers_.emplace(devices[d], d);
  }
  Result<Partitioned> run();

 private:
  size_t device_index(NodeId id) const {
    return numbers_.at(graph_.node(id).device);  // REQUIRES: it was placed
  }
  void count_hops(const std::vector<NodeId>& order);
  static uint64_t key(ValueId value, uint32_t part) { return uint64_t{part} << 32 | value; }
  // The part's own copy of a value, or kNone.
  ValueId find_local(ValueId value, uint32_t part) const {
    const NodeId producer = graph_.value(value).producer;
    if (producer != kNone && part_of_[producer] == part) return made_[value];
    const auto it = brought_.find(key(value, part));
    return it == brought_.end() ? kNone : it->second;
  }
  Result<ValueId> local_value(ValueId value, uint32_t part);
  Result<ValueId> receive(ValueId value, uint32_t from, uint32_t part);
  ValueId transfer(ValueId value, ValueId there, const Shape& shape, uint32_t from, uint32_t part,
                   std::string name);
  ValueId typed(uint32_t part, NodeId made, DType dtype, const Shape& shape, std::string name);
  ValueId clone_constant(ValueId value, uint32_t part);
  NodeId receive_token(NodeId before, uint32_t part);
  Status copy(NodeId id);
  NodeId add(uint32_t part, const OpDef* op, std::vector<ValueId> inputs, Attrs attrs, int outputs,
             uint32_t depth);

  const Graph& graph_;
  const Borders& borders_;
  const std::vector<std::string>& devices_;
  Partitioned out_;
  std::vector<uint32_t> part_of_;                         // by node
  std::vector<uint32_t> depth_;                           // by node
  std::unordered_map<std::string_view, size_t> numbers_;  // of devices
  std::vector<ValueId> made_;                             // by value: in the part that makes it
  // By part and value: those of others that are there, too.
  std::unordered_map<uint64_t, ValueId> brought_;
  std::vector<NodeId> copy_of_;                           // by node: in its part
  std::map<std::pair<NodeId, uint32_t>, NodeId> tokens_;  // (node, part) -> its ReceiveToken there
};

// Hops between devices on the longest way to each node. Issued in this order, a device never waits
// for one that waits for it.
void Partitioner::count_hops(const std::vector<NodeId>& order) {
  depth_.assign(graph_.nodes(), 0);
  for (NodeId id : order) {
    const auto follow = [&](NodeId before) {
      depth_[id] =
          std::max(depth_[id], depth_[before] + (part_of_[before] == part_of_[id] ? 0 : 1));
    };
    for (ValueId input : graph_.node(id).inputs) {
      const NodeId producer = input == kNone ? kNone : graph_.value(input).producer;
      if (producer != kNone && !is_op(*graph_.node(producer).op, "Constant")) follow(producer);
    }
    for (NodeId before : graph_.node(id).after) follow(before);
  }
}

NodeId Partitioner::add(uint32_t part, const OpDef* op, std::vector<ValueId> inputs, Attrs attrs,
                        int outputs, uint32_t depth) {
  Part& p = out_.parts[part];
  const NodeId id = p.graph.add_node(*op, std::move(inputs), std::move(attrs), outputs);
  p.graph.node(id).device = p.device;
  p.depth.push_back(depth);
  return id;
}

// Sends `there`, a value of part `from` that stands for `value` or a piece of it.
ValueId Partitioner::transfer(ValueId value, ValueId there, const Shape& shape, uint32_t from,
                              uint32_t part, std::string name) {
  const ValueType& type = graph_.value(value).type;
  const auto edge = static_cast<int64_t>(out_.edges.size());
  const uint32_t depth = depth_[graph_.value(value).producer];
  out_.edges.push_back({from, part,
                        static_cast<uint64_t>(shape.elements()) * dtype_size(type.dtype),
                        name.empty() ? graph_.describe(value) : name});
  const Catalogue& catalogue = graph_.catalogue();
  add(from, catalogue.find("leat.Send"), {there}, {{"edge", edge}}, 0, depth);
  const NodeId made = add(part, catalogue.find("leat.Receive"), {},
                          {{"edge", edge},
                           {"dtype", std::string(dtype_name(type.dtype))},
                           {"shape", std::vector<int64_t>(shape.begin(), shape.end())}},
                          1, depth + 1);
  return typed(part, made, type.dtype, shape, std::move(name));
}

ValueId Partitioner::typed(uint32_t part, NodeId made, DType dtype, const Shape& shape,
                           std::string name) {
  Graph& graph = out_.parts[part].graph;
  const ValueId value = graph.node(made).outputs[0];
  graph.value(value).type.dtype = dtype;
  graph.value(value).type.shape = SymbolicShape(shape);
  graph.set_value_name(value, std::move(name));
  return value;
}

Result<ValueId> Partitioner::receive(ValueId value, uint32_t from, uint32_t part) {
  const ValueType& type = graph_.value(value).type;
  const auto shape = type.shape.concrete();
  if (type.kind != ValueKind::tensor || !shape) {
    return invalid_argument(cat("'", graph_.describe(value),
                                "': only a tensor of a concrete shape can cross devices, it is ",
                                graph_.type_text(type)));
  }
  const ValueId here = transfer(value, made_[value], *shape, from, part, "");
  Graph& graph = out_.parts[part].graph;
  graph.value(here).type = type;
  graph.set_value_name(here, graph_.value_name(value));
  return brought_[key(value, part)] = here;
}

Result<ValueId> Partitioner::local_value(ValueId value, uint32_t part) {
  if (const ValueId there = find_local(value, part); there != kNone) return there;
  const NodeId producer = graph_.value(value).producer;
  if (producer != kNone && is_op(*graph_.node(producer).op, "Constant"))
    return clone_constant(value, part);
  if (producer != kNone) return receive(value, part_of_[producer], part);
  Part& p = out_.parts[part];
  const ValueId input = p.graph.add_input(graph_.value_name(value), graph_.value(value).type);
  const auto feed = std::find(borders_.feeds.begin(), borders_.feeds.end(), value);
  p.borders.feeds.push_back(input);
  p.feed_index.push_back(static_cast<uint32_t>(feed - borders_.feeds.begin()));
  return brought_[key(value, part)] = input;
}

// A constant is cheaper to have twice than to send.
ValueId Partitioner::clone_constant(ValueId value, uint32_t part) {
  const Node& node = graph_.node(graph_.value(value).producer);
  const NodeId made = add(part, node.op, {}, node.attrs, 1, 0);
  Graph& graph = out_.parts[part].graph;
  const ValueId here = graph.node(made).outputs[0];
  graph.value(here).type = graph_.value(value).type;
  graph.set_value_name(here, graph_.value_name(value));
  return brought_[key(value, part)] = here;
}

NodeId Partitioner::receive_token(NodeId before, uint32_t part) {
  const auto [it, fresh] = tokens_.try_emplace({before, part}, kNone);
  if (!fresh) return it->second;
  const uint32_t from = part_of_[before];
  const auto edge = static_cast<int64_t>(out_.edges.size());
  out_.edges.push_back({from, part, 0, cat("after ", graph_.describe_node(before))});
  const NodeId sent =
      add(from, graph_.catalogue().find("leat.SendToken"), {}, {{"edge", edge}}, 0, depth_[before]);
  out_.parts[from].graph.node(sent).after.push_back(copy_of_[before]);
  return it->second = add(part, graph_.catalogue().find("leat.ReceiveToken"), {}, {{"edge", edge}},
                          0, depth_[before] + 1);
}

Status Partitioner::copy(NodeId id) {
  const Node& node = graph_.node(id);
  const uint32_t part = part_of_[id];
  std::vector<ValueId> inputs;
  for (ValueId input : node.inputs) {
    if (input == kNone) {
      inputs.push_back(kNone);
      continue;
    }
    LEAT_ASSIGN_OR_RETURN(const ValueId here, local_value(input, part));
    inputs.push_back(here);
  }
  std::vector<NodeId> after;
  for (NodeId before : node.after) {
    after.push_back(part_of_[before] == part ? copy_of_[before] : receive_token(before, part));
  }
  const NodeId made = add(part, node.op, std::move(inputs), node.attrs, 0, depth_[id]);
  Graph& graph = out_.parts[part].graph;
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    if (node.outputs[i] == kNone) continue;
    const ValueId output = graph.ensure_output(made, static_cast<int>(i));
    graph.value(output).type = graph_.value(node.outputs[i]).type;
    graph.set_value_name(output, graph_.value_name(node.outputs[i]));
    made_[node.outputs[i]] = output;
  }
  Node& copied = graph.node(made);
  copied.name = node.name;
  copied.source = node.source;
  copied.first_row = node.first_row;
  copied.after = std::move(after);
  copy_of_[id] = made;
  return {};
}

Result<Partitioned> Partitioner::run() {
  LEAT_ASSIGN_OR_RETURN(const auto order, graph_.topological_order());
  // Parts in the order of the devices; devices without nodes get none, but for the first.
  std::vector<bool> used(devices_.size(), false);
  for (NodeId id : order) used[device_index(id)] = true;
  if (order.empty()) used[0] = true;
  std::vector<uint32_t> part_of_device(devices_.size(), kNone);
  for (size_t d = 0; d < devices_.size(); ++d) {
    if (!used[d]) continue;
    part_of_device[d] = static_cast<uint32_t>(out_.parts.size());
    Part part{Graph(graph_.catalogue()), devices_[d], {}, {}, {}, {}};
    part.graph.name = graph_.name;
    out_.parts.push_back(std::move(part));
  }
  made_.assign(graph_.values(), kNone);
  copy_of_.assign(graph_.nodes(), kNone);
  for (NodeId id = 0; id < graph_.nodes(); ++id)
    part_of_.push_back(part_of_device[device_index(id)]);
  count_hops(order);
  for (NodeId id : order) LEAT_RETURN_IF_ERROR(copy(id));
  for (uint32_t i = 0; i < borders_.fetches.size(); ++i) {
    const NodeId producer = graph_.value(borders_.fetches[i]).producer;
    const uint32_t part = producer == kNone ? 0 : part_of_[producer];
    LEAT_ASSIGN_OR_RETURN(const ValueId here, local_value(borders_.fetches[i], part));
    out_.parts[part].borders.fetches.push_back(here);
    out_.parts[part].fetch_index.push_back(i);
  }
  for (NodeId target : borders_.targets)
    out_.parts[part_of_[target]].borders.targets.push_back(copy_of_[target]);
  return std::move(out_);
}

}  // namespace

Result<Partitioned> partition(const Graph& graph, const Borders& borders,
                              const std::vector<std::string>& devices) {
  return Partitioner(graph, borders, devices).run();
}

}  // namespace leat
