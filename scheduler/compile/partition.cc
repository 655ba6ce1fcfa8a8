// In two goes. The first routes: it lists what each part is made of, step by step, and numbers the
// edges. The second makes a part out of its list, one part at a time, so that the graphs of
// thousands of parts never stand beside each other.
#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "devices/base/text.h"
#include "ops/graph/op.h"
#include "scheduler/compile/passes.h"
#include "scheduler/graph/op_name.h"

namespace leat {

// A step of making a part.
struct Partitioned::Step {
  enum class Kind : uint8_t {
    copy,           // node `of`
    constant,       // value `of`, a constant of another part
    input,          // value `of`, an input of the graph
    send,           // value `of`
    receive,        // value `of`
    send_token,     // after node `of`
    receive_token,  // after node `of`
  };
  Kind kind = Kind::copy;
  uint32_t of = kNone;
  uint32_t edge = kNone;
};

// Parts in the order of the devices; devices without nodes get none, but for the first.
struct Partitioned::Routes {
  std::vector<std::string> devices;      // by part
  std::vector<std::vector<Step>> steps;  // by part
  std::vector<uint32_t> part_of;         // by node
  std::vector<uint32_t> depth;           // by node
  std::vector<uint32_t> part_of_fetch;
  std::vector<PlanEdge> edges;
};

namespace {

using Step = Partitioned::Step;
using Routes = Partitioned::Routes;

bool is_constant(const Graph& graph, NodeId producer) {
  return producer != kNone && is_op(graph.node(producer), "Constant");
}

class Router {
 public:
  Router(const Graph& graph, const Borders& borders, const std::vector<std::string>& devices)
      : graph_(graph), borders_(borders), devices_(devices) {}
  Result<Routes> run();

 private:
  void number_parts(const std::vector<NodeId>& order);
  void count_hops(const std::vector<NodeId>& order);
  static uint64_t key(uint32_t of, uint32_t part) { return uint64_t{part} << 32 | of; }
  uint32_t connect(uint32_t from, uint32_t to, uint64_t bytes, std::string name);
  Status bring(ValueId value, uint32_t part);
  Status receive(ValueId value, uint32_t part);
  void receive_token(NodeId before, uint32_t part);
  Status route(NodeId id);

  const Graph& graph_;
  const Borders& borders_;
  const std::vector<std::string>& devices_;
  Routes out_;
  std::unordered_set<uint64_t> brought_;  // values of others, by part
  std::unordered_set<uint64_t> tokens_;   // nodes of others, by part
};

// Gives each device that has nodes a number. A graph without nodes still needs a part for its
// fetches.
void Router::number_parts(const std::vector<NodeId>& order) {
  std::unordered_map<std::string_view, size_t> numbers;
  // The names become numbers once, since a graph has far more nodes than there are devices.
  for (size_t d = 0; d < devices_.size(); ++d) numbers.emplace(devices_[d], d);
  std::vector<uint32_t> device_of(graph_.nodes());
  std::vector<bool> used(devices_.size(), false);
  for (NodeId id : order) {
    device_of[id] = static_cast<uint32_t>(numbers.at(graph_.node(id).device));  // it was placed
    used[device_of[id]] = true;
  }
  if (order.empty()) used[0] = true;
  std::vector<uint32_t> part_of_device(devices_.size(), kNone);
  for (size_t d = 0; d < devices_.size(); ++d) {
    if (!used[d]) continue;
    part_of_device[d] = static_cast<uint32_t>(out_.devices.size());
    out_.devices.push_back(devices_[d]);
  }
  out_.steps.resize(out_.devices.size());
  for (NodeId id = 0; id < graph_.nodes(); ++id)
    out_.part_of.push_back(part_of_device[device_of[id]]);
}

// Hops between devices on the longest way to each node. Issued in this order, a device never waits
// for one that waits for it.
void Router::count_hops(const std::vector<NodeId>& order) {
  out_.depth.assign(graph_.nodes(), 0);
  for (NodeId id : order) {
    const auto follow = [&](NodeId before) {
      const uint32_t hop = out_.part_of[before] == out_.part_of[id] ? 0 : 1;
      out_.depth[id] = std::max(out_.depth[id], out_.depth[before] + hop);
    };
    for (ValueId input : graph_.node(id).inputs) {
      const NodeId producer = input == kNone ? kNone : graph_.value(input).producer;
      // A constant is cloned into each part, so it is no hop.
      if (producer != kNone && !is_constant(graph_, producer)) follow(producer);
    }
    for (NodeId before : graph_.node(id).after) follow(before);
  }
}

// Adds an edge, and returns its number.
uint32_t Router::connect(uint32_t from, uint32_t to, uint64_t bytes, std::string name) {
  out_.edges.push_back({from, to, bytes, std::move(name)});
  return static_cast<uint32_t>(out_.edges.size() - 1);
}

// Adds the transfer of a value to both parts. A size that is not known could have no slot.
Status Router::receive(ValueId value, uint32_t part) {
  const ValueType& type = graph_.value(value).type;
  const auto shape = type.shape.concrete();
  if (type.kind != ValueKind::tensor || !shape) {
    return invalid_argument(cat("'", graph_.describe(value),
                                "': only a tensor of a concrete shape can cross devices, it is ",
                                graph_.type_text(type)));
  }
  const uint32_t from = out_.part_of[graph_.value(value).producer];
  const uint64_t bytes = static_cast<uint64_t>(shape->elements()) * dtype_size(type.dtype);
  const uint32_t edge = connect(from, part, bytes, graph_.describe(value));
  // The producer was routed before this reader, so its copy stands in the sender's list already.
  out_.steps[from].push_back({Step::Kind::send, value, edge});
  out_.steps[part].push_back({Step::Kind::receive, value, edge});
  return {};
}

// Makes a value available in a part, once for all its readers there.
Status Router::bring(ValueId value, uint32_t part) {
  const NodeId producer = graph_.value(value).producer;
  if (producer != kNone && out_.part_of[producer] == part) return {};
  if (!brought_.insert(key(value, part)).second) return {};
  if (producer != kNone && !is_constant(graph_, producer)) return receive(value, part);
  // A constant is cheaper to have twice than to send.
  const auto kind = producer == kNone ? Step::Kind::input : Step::Kind::constant;
  out_.steps[part].push_back({kind, value, kNone});
  return {};
}

// Carries a control edge to another part: a transfer without bytes.
void Router::receive_token(NodeId before, uint32_t part) {
  const uint32_t from = out_.part_of[before];
  if (from == part || !tokens_.insert(key(before, part)).second) return;
  const uint32_t edge = connect(from, part, 0, cat("after ", graph_.describe_node(before)));
  out_.steps[from].push_back({Step::Kind::send_token, before, edge});
  out_.steps[part].push_back({Step::Kind::receive_token, before, edge});
}

Status Router::route(NodeId id) {
  const Node& node = graph_.node(id);
  const uint32_t part = out_.part_of[id];
  for (ValueId input : node.inputs) {
    if (input != kNone) LEAT_RETURN_IF_ERROR(bring(input, part));
  }
  for (NodeId before : node.after) receive_token(before, part);
  out_.steps[part].push_back({Step::Kind::copy, id, kNone});
  return {};
}

Result<Routes> Router::run() {
  LEAT_ASSIGN_OR_RETURN(const auto order, graph_.topological_order());
  number_parts(order);
  count_hops(order);
  for (NodeId id : order) LEAT_RETURN_IF_ERROR(route(id));
  // A fetch is made where its value is. A fed value is fetched on the first part.
  for (ValueId fetch : borders_.fetches) {
    const NodeId producer = graph_.value(fetch).producer;
    out_.part_of_fetch.push_back(producer == kNone ? 0 : out_.part_of[producer]);
    LEAT_RETURN_IF_ERROR(bring(fetch, out_.part_of_fetch.back()));
  }
  return std::move(out_);
}

}  // namespace

class Partitioned::Maker {
 public:
  Maker(Graph graph, Borders borders, Routes routes)
      : graph_(std::move(graph)),
        borders_(std::move(borders)),
        routes_(std::move(routes)),
        made_(graph_.values(), kNone),
        copy_of_(graph_.nodes(), kNone) {}

  const std::vector<std::string>& devices() const { return routes_.devices; }
  Part make(uint32_t index);

 private:
  void take(Part& part, const Step& step);
  NodeId add(Part& part, const OpDef* op, std::vector<ValueId> inputs, Attrs attrs, int outputs,
             uint32_t depth);
  NodeId add(Part& part, std::string_view op, std::vector<ValueId> inputs, Attrs attrs, int outputs,
             uint32_t depth) {
    return add(part, graph_.catalogue().find(op), std::move(inputs), std::move(attrs), outputs,
               depth);
  }
  void copy(Part& part, NodeId id);
  void clone_constant(Part& part, ValueId value);
  void add_input(Part& part, ValueId value);
  void receive(Part& part, ValueId value, int64_t edge);
  void send_token(Part& part, NodeId before, int64_t edge);
  void bring(Part& part, ValueId value, ValueId here);
  // The part's own copy of a value.
  ValueId local(ValueId value) const {
    const auto it = brought_.find(value);
    return it == brought_.end() ? made_[value] : it->second;
  }
  uint32_t depth_of(ValueId value) const { return routes_.depth[graph_.value(value).producer]; }

  const Graph graph_;
  const Borders borders_;
  Routes routes_;
  std::vector<ValueId> made_;    // by value: in the part that makes it
  std::vector<NodeId> copy_of_;  // by node: in its part
  // Of the part that is being made.
  std::unordered_map<ValueId, ValueId> brought_;  // values of others that are there, too
  std::unordered_map<NodeId, NodeId> tokens_;     // nodes of others -> the ReceiveToken
};

NodeId Partitioned::Maker::add(Part& part, const OpDef* op, std::vector<ValueId> inputs,
                               Attrs attrs, int outputs, uint32_t depth) {
  const NodeId id = part.graph.add_node(*op, std::move(inputs), std::move(attrs), outputs);
  part.graph.node(id).device = part.device;
  part.depth.push_back(depth);
  return id;
}

// `here` stands for a value of another part.
void Partitioned::Maker::bring(Part& part, ValueId value, ValueId here) {
  part.graph.value(here).type = graph_.value(value).type;
  part.graph.set_value_name(here, graph_.value_name(value));
  brought_[value] = here;
}

void Partitioned::Maker::receive(Part& part, ValueId value, int64_t edge) {
  const ValueType& type = graph_.value(value).type;
  std::vector<int64_t> shape;
  for (const Dim dim : type.shape.dims()) shape.push_back(dim.factor);  // concrete: it was routed
  const NodeId made = add(
      part, "leat.Receive", {},
      {{"edge", edge}, {"dtype", std::string(dtype_name(type.dtype))}, {"shape", std::move(shape)}},
      1, depth_of(value) + 1);
  bring(part, value, part.graph.node(made).outputs[0]);
}

// Gives the part a constant of its own, which nothing comes before.
void Partitioned::Maker::clone_constant(Part& part, ValueId value) {
  const Node& node = graph_.node(graph_.value(value).producer);
  const NodeId made = add(part, node.op, {}, node.attrs, 1, 0);
  bring(part, value, part.graph.node(made).outputs[0]);
}

void Partitioned::Maker::add_input(Part& part, ValueId value) {
  const ValueId input = part.graph.add_input(graph_.value_name(value), graph_.value(value).type);
  const auto feed = std::find(borders_.feeds.begin(), borders_.feeds.end(), value);
  part.borders.feeds.push_back(input);
  part.feed_index.push_back(static_cast<uint32_t>(feed - borders_.feeds.begin()));
  brought_[value] = input;
}

// The token is sent after the node, since it has no value that would order the two.
void Partitioned::Maker::send_token(Part& part, NodeId before, int64_t edge) {
  const NodeId sent = add(part, "leat.SendToken", {}, {{"edge", edge}}, 0, routes_.depth[before]);
  part.graph.node(sent).after.push_back(copy_of_[before]);
}

void Partitioned::Maker::copy(Part& part, NodeId id) {
  // Inputs and control edges are looked up first: they name what earlier steps of this part have
  // made.
  const Node& node = graph_.node(id);
  std::vector<ValueId> inputs;
  for (ValueId input : node.inputs) inputs.push_back(input == kNone ? kNone : local(input));
  std::vector<NodeId> after;
  // A node of another part is represented by the token that arrives for it.
  for (NodeId before : node.after) {
    const bool here = routes_.part_of[before] == routes_.part_of[id];
    after.push_back(here ? copy_of_[before] : tokens_.at(before));
  }
  const NodeId made = add(part, node.op, std::move(inputs), node.attrs, 0, routes_.depth[id]);
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    if (node.outputs[i] == kNone) continue;
    const ValueId output = part.graph.ensure_output(made, static_cast<int>(i));
    part.graph.value(output).type = graph_.value(node.outputs[i]).type;
    part.graph.set_value_name(output, graph_.value_name(node.outputs[i]));
    made_[node.outputs[i]] = output;
  }
  Node& copied = part.graph.node(made);
  copied.name = node.name;
  copied.source = node.source;
  copied.first_row = node.first_row;
  copied.after = std::move(after);
  copy_of_[id] = made;
}

void Partitioned::Maker::take(Part& part, const Step& step) {
  const auto edge = static_cast<int64_t>(step.edge);
  switch (step.kind) {
    case Step::Kind::copy:
      return copy(part, step.of);
    case Step::Kind::constant:
      return clone_constant(part, step.of);
    case Step::Kind::input:
      return add_input(part, step.of);
    case Step::Kind::receive:
      return receive(part, step.of, edge);
    case Step::Kind::send_token:
      return send_token(part, step.of, edge);
    case Step::Kind::send:
      add(part, "leat.Send", {made_[step.of]}, {{"edge", edge}}, 0, depth_of(step.of));
      return;
    case Step::Kind::receive_token:
      tokens_[step.of] =
          add(part, "leat.ReceiveToken", {}, {{"edge", edge}}, 0, routes_.depth[step.of] + 1);
      return;
  }
}

Part Partitioned::Maker::make(uint32_t index) {
  // Both maps are of one part.
  brought_.clear();
  tokens_.clear();
  Part part{Graph(graph_.catalogue()), routes_.devices[index], {}, {}, {}, {}};
  part.graph.name = graph_.name;
  for (const Step& step : routes_.steps[index]) take(part, step);
  for (uint32_t i = 0; i < borders_.fetches.size(); ++i) {
    if (routes_.part_of_fetch[i] != index) continue;
    part.borders.fetches.push_back(local(borders_.fetches[i]));
    part.fetch_index.push_back(i);
  }
  for (NodeId target : borders_.targets) {
    if (routes_.part_of[target] == index) part.borders.targets.push_back(copy_of_[target]);
  }
  return part;
}

Partitioned::Partitioned(std::vector<PlanEdge> made, std::unique_ptr<Maker> maker)
    : edges(std::move(made)), maker_(std::move(maker)) {}
Partitioned::Partitioned(Partitioned&&) noexcept = default;
Partitioned::~Partitioned() = default;

const std::vector<std::string>& Partitioned::devices() const { return maker_->devices(); }
Part Partitioned::make(uint32_t index) { return maker_->make(index); }

Result<Partitioned> partition(Graph graph, const Borders& borders,
                              const std::vector<std::string>& devices) {
  LEAT_ASSIGN_OR_RETURN(Routes routes, Router(graph, borders, devices).run());
  std::vector<PlanEdge> edges = std::move(routes.edges);
  return Partitioned(std::move(edges), std::make_unique<Partitioned::Maker>(
                                           std::move(graph), borders, std::move(routes)));
}

}  // namespace leat
