#include <algorithm>
#include <map>

#include "devices/base/text.h"
#include "devices/core/pages.h"
#include "ops/definitions/constant.h"
#include "ops/graph/op.h"
#include "ops/graph/validate.h"
#include "scheduler/compile/passes.h"
#include "scheduler/graph/device_name.h"
#include "scheduler/graph/op_name.h"

namespace leat {
namespace {

// Turns the nodes of a part into instructions, in their order. Each value of the graph becomes a
// plan value when the node that makes it is visited, so ids of plan values rise in the order of the
// step.
class Emitter {
 public:
  Emitter(const Part& part, const Order& order, const LayoutChoice& layouts)
      : part_(part),
        graph_(part.graph),
        order_(order),
        layouts_(layouts),
        value_(part.graph.values(), kNone),
        is_piece_(part.graph.values(), false) {
    // The pieces of joined values must be known first: the kernel that makes a piece puts it in
    // pages.
    for (NodeId id : order_.nodes) {
      if (joins_pages(id)) {
        for (ValueId piece : graph_.node(id).inputs) is_piece_[piece] = true;
      }
    }
  }

  Result<Partition> run() {
    out_.device = part_.device;
    out_.values.reserve(graph_.values());
    out_.instructions.reserve(order_.nodes.size());
    for (size_t i = 0; i < part_.borders.fetches.size(); ++i) {
      // One value may be fetched several times.
      fetches_[part_.borders.fetches[i]].push_back(part_.fetch_index[i]);
    }
    for (size_t i = 0; i < part_.borders.feeds.size(); ++i) {
      LEAT_ASSIGN_OR_RETURN(const uint32_t value, define(part_.borders.feeds[i], Home::arena));
      if (out_.feeds.size() <= part_.feed_index[i])
        out_.feeds.resize(part_.feed_index[i] + 1, kNone);
      out_.feeds[part_.feed_index[i]] = value;
    }
    // A fed value may be fetched as it is.
    for (ValueId input : graph_.inputs()) fetch(input);
    for (NodeId id : order_.nodes) LEAT_RETURN_IF_ERROR(visit(id));
    add_retires();
    return std::move(out_);
  }

 private:
  // A plan value for `value`, of its concrete type and layout.
  Result<uint32_t> define(ValueId value, Home home, uint32_t index = 0) {
    const ValueType& type = graph_.value(value).type;
    const auto shape = type.shape.concrete();
    if (!shape && type.kind != ValueKind::token) {
      return unimplemented(cat("'", graph_.describe(value),
                               "': expected a shape that is known when the plan is made, it is ",
                               graph_.type_text(type)));
    }
    PlanValue made;
    made.type = {type.dtype, shape.value_or(Shape()), Layout::plain, type.kind, true};
    if (value < layouts_.of_value.size()) made.type.layout = layouts_.of_value[value];
    made.home = type.kind == ValueKind::token ? Home::none : home;
    made.index = index;
    made.name = graph_.describe(value);
    out_.values.push_back(std::move(made));
    return value_[value] = static_cast<uint32_t>(out_.values.size() - 1);
  }

  // Adds the fetches of a value right behind the instruction that makes it, while its bytes are
  // there.
  void fetch(ValueId value) {
    const auto it = fetches_.find(value);
    if (it == fetches_.end() || value_[value] == kNone) return;
    for (uint32_t index : it->second) {
      PlanInstruction instruction;
      instruction.kind = PlanInstruction::Kind::fetch;
      instruction.edge = index;
      instruction.inputs = {value_[value]};
      instruction.name = graph_.describe(value);
      out_.instructions.push_back(std::move(instruction));
    }
  }

  // A Join whose pieces can lie where they show as one.
  bool joins_pages(NodeId id) const {
    const Node& node = graph_.node(id);
    if (!is_op(node, "leat.Join") || !matches_device("cpu", part_.device)) return false;
    uint64_t at = 0;
    for (ValueId piece : node.inputs) {
      // A piece must have memory of its own that can be mapped twice: it is no view, resource,
      // constant or joined value, and begins at a whole page of the joined one. A Join of other
      // pieces is a kernel.
      const NodeId producer = graph_.value(piece).producer;
      if (producer == kNone || layout_of(piece) != Layout::plain || at % kPageBytes != 0)
        return false;
      const Node& maker = graph_.node(producer);
      const std::string op = maker.op->full_name();
      const auto shape = graph_.value(piece).type.shape.concrete();
      if (maker.op->view || maker.op->make_resource || op == "Constant" || op == "leat.Join" ||
          !shape)
        return false;
      const uint64_t bytes =
          static_cast<uint64_t>(shape->elements()) * dtype_size(graph_.value(piece).type.dtype);
      if (bytes < kLeastInPages || bytes > kMostInPages) return false;
      at += bytes;
    }
    return true;
  }

  // True if the output shares the input's bytes. A read that a later write would overtake is a
  // copy.
  bool is_view(NodeId id) const {
    const Node& node = graph_.node(id);
    if (!node.op->view) return false;
    if (std::find(order_.copied_reads.begin(), order_.copied_reads.end(), id) !=
        order_.copied_reads.end())
      return false;
    const ValueId in = node.inputs[0];
    return layout_of(in) == Layout::plain && layout_of(node.outputs[0]) == Layout::plain;
  }
  Layout layout_of(ValueId value) const {
    return value < layouts_.of_value.size() ? layouts_.of_value[value] : Layout::plain;
  }

  // Turns one node into what the plan has for it. Resources, constants, views and joined values
  // take no instruction.
  Status visit(NodeId id) {
    const Node& node = graph_.node(id);
    const std::string& op = node.op->name;
    const bool ours = node.op->domain == "leat";
    if (node.op->make_resource) return resource(id);
    if (!ours && op == "Constant") return constant(id);
    if (is_view(id)) return view(id);
    if (ours && op == "Join" && joins_pages(id)) return join(id);
    if (ours && (op == "Send" || op == "SendToken"))
      return transfer(id, PlanInstruction::Kind::send);
    if (ours && (op == "Receive" || op == "ReceiveToken"))
      return transfer(id, PlanInstruction::Kind::receive);
    return kernel(id);
  }

  // Adds a resource. It has bytes only if it is a variable.
  Status resource(NodeId id) {
    const Node& node = graph_.node(id);
    PlanResource made{node.op, node.attrs,
                      attr_string(node.attrs, "name", graph_.describe(node.outputs[0])), 0};
    const ValueType& type = graph_.value(node.outputs[0]).type;
    if (const auto shape = type.shape.concrete())
      made.bytes = static_cast<uint64_t>(shape->elements()) * dtype_size(type.dtype);
    out_.resources.push_back(std::move(made));
    return define(node.outputs[0], Home::resource, static_cast<uint32_t>(out_.resources.size() - 1))
        .status();
  }

  Status constant(NodeId id) {
    const Node& node = graph_.node(id);
    LEAT_ASSIGN_OR_RETURN(Tensor value, value_of(node));
    out_.constants.push_back(std::move(value));
    LEAT_RETURN_IF_ERROR(
        define(node.outputs[0], Home::constant, static_cast<uint32_t>(out_.constants.size() - 1))
            .status());
    fetch(node.outputs[0]);
    return {};
  }

  Result<Tensor> value_of(const Node& node) const {
    auto value = constant_value(node.attrs);
    if (!value || !value->valid())
      return internal_error(cat("constant '", node.name, "' has no value"));
    return std::move(*value);
  }

  Status view(NodeId id) {
    const Node& node = graph_.node(id);
    const uint32_t input = value_[node.inputs[0]];
    // A view has the home and index of its input, and names the root: aliases of aliases do not
    // exist.
    LEAT_ASSIGN_OR_RETURN(const uint32_t output, define(node.outputs[0], out_.values[input].home,
                                                        out_.values[input].index));
    PlanValue& view = out_.values[output];
    view.alias = out_.root(input);
    view.offset = out_.values[input].offset;  // still from the value on, also in the arena
    if (is_op(node, "leat.Range"))
      view.offset +=
          static_cast<uint64_t>(attr_int(node.attrs, "first")) * dtype_size(view.type.dtype);
    fetch(node.outputs[0]);
    return {};
  }

  Status join(NodeId id) {
    const Node& node = graph_.node(id);
    LEAT_ASSIGN_OR_RETURN(const uint32_t whole, define(node.outputs[0], Home::joined));
    for (ValueId piece : node.inputs) out_.values[whole].pieces.push_back(value_[piece]);
    fetch(node.outputs[0]);
    return {};
  }

  Status transfer(NodeId id, PlanInstruction::Kind kind) {
    const Node& node = graph_.node(id);
    PlanInstruction instruction;
    instruction.kind = kind;
    instruction.edge = static_cast<uint32_t>(attr_int(node.attrs, "edge"));
    for (ValueId input : node.inputs) instruction.inputs.push_back(value_[input]);
    if (!node.outputs.empty()) {
      LEAT_ASSIGN_OR_RETURN(const uint32_t landed,
                            define(node.outputs[0], Home::slot, instruction.edge));
      instruction.outputs.push_back(landed);
    }
    if (kind == PlanInstruction::Kind::send && instruction.inputs.empty()) {
      // A token: something to name as input keeps the instruction uniform.
      PlanValue token;
      token.type.kind = ValueKind::token;
      token.name = "token";
      out_.values.push_back(token);
      instruction.inputs.push_back(static_cast<uint32_t>(out_.values.size() - 1));
    }
    // A transfer has the name of the value that it moves, for messages.
    instruction.name =
        instruction.inputs.empty()
            ? (instruction.outputs.empty() ? "token" : out_.values[instruction.outputs[0]].name)
            : out_.values[instruction.inputs[0]].name;
    out_.instructions.push_back(std::move(instruction));
    if (!node.outputs.empty()) fetch(node.outputs[0]);
    return {};
  }

  // A part of a composite whose values have no names is called after the composite: "part of Mish
  // act".
  std::string name_of(const Node& node) const {
    if (!node.name.starts_with('%')) return node.name;
    for (const ValueId value : node.outputs) {
      if (value != kNone && !graph_.value_name(value).empty()) return "";
    }
    std::string name = cat("part of ", node.name.substr(1));
    std::erase(name, '\'');
    return name;
  }

  Status kernel(NodeId id) {
    const Node& node = graph_.node(id);
    PlanInstruction instruction;
    instruction.op = node.op;
    instruction.attrs = node.attrs;
    instruction.source = node.source;
    instruction.first_row = node.first_row;
    instruction.name = name_of(node);
    for (ValueId input : node.inputs)
      instruction.inputs.push_back(input == kNone ? kNone : value_[input]);
    for (ValueId output : node.outputs) {
      if (output == kNone) {
        instruction.outputs.push_back(kNone);
        continue;
      }
      LEAT_ASSIGN_OR_RETURN(const uint32_t made,
                            define(output, is_piece_[output] ? Home::pages : Home::arena));
      instruction.outputs.push_back(made);
      // A node without a name is called after its first output, or else after its first input.
      if (instruction.name.empty()) instruction.name = out_.values[made].name;
    }
    if (instruction.name.empty() && !instruction.inputs.empty() && instruction.inputs[0] != kNone)
      instruction.name = out_.values[instruction.inputs[0]].name;
    out_.instructions.push_back(std::move(instruction));
    for (ValueId output : node.outputs) {
      if (output != kNone) fetch(output);
    }
    return {};
  }

  // A value, or what it is joined from.
  std::vector<uint32_t> read_with(uint32_t value) const {
    const PlanValue& of = out_.values[out_.root(value)];
    return of.home == Home::joined ? of.pieces : std::vector<uint32_t>{value};
  }

  // After the last reader of a slot: give it back. Nothing comes between the writes of a commit.
  void add_retires() {
    const uint32_t commit = out_.commit(), last_write = out_.last_write();
    std::map<uint32_t, size_t> last;  // edge -> position
    for (size_t i = 0; i < out_.instructions.size(); ++i) {
      const PlanInstruction& instruction = out_.instructions[i];
      if (instruction.kind == PlanInstruction::Kind::receive) last[instruction.edge] = i;
      for (uint32_t input : instruction.inputs) {
        if (input == kNone) continue;
        // A slot is in use until the last instruction that reads it, a view of it, or a value
        // joined from it.
        for (uint32_t read : read_with(input)) {
          if (out_.values[read].home == Home::slot) last[out_.values[read].index] = i;
        }
      }
    }
    std::map<size_t, std::vector<uint32_t>> after;
    for (auto [edge, position] : last) {
      // A retire between the writes of a commit would be a transfer among them: it moves behind the
      // last one.
      const bool committing =
          commit != kNone && last_write != kNone && position >= commit && position < last_write;
      after[committing ? last_write : position].push_back(edge);
    }
    if (after.empty()) return;
    std::map<uint32_t, uint32_t> landed;
    // The list is built anew, because inserting into it would move its tail for each retire.
    std::vector<PlanInstruction> listed;
    listed.reserve(out_.instructions.size() + last.size());
    for (size_t i = 0; i < out_.instructions.size(); ++i) {
      if (out_.instructions[i].kind == PlanInstruction::Kind::receive &&
          !out_.instructions[i].outputs.empty()) {
        landed[out_.instructions[i].edge] = out_.instructions[i].outputs[0];
      }
      listed.push_back(std::move(out_.instructions[i]));
      const auto retired = after.find(i);
      if (retired == after.end()) continue;
      for (uint32_t edge : retired->second) {
        PlanInstruction retire;
        retire.kind = PlanInstruction::Kind::retire;
        retire.edge = edge;
        if (landed.count(edge)) retire.inputs = {landed[edge]};
        retire.name = retire.inputs.empty() ? "token" : out_.values[retire.inputs[0]].name;
        listed.push_back(std::move(retire));
      }
    }
    out_.instructions = std::move(listed);
  }

  const Part& part_;
  const Graph& graph_;
  const Order& order_;
  const LayoutChoice& layouts_;
  std::vector<uint32_t> value_;  // by graph value
  std::vector<bool> is_piece_;   // by graph value: shows as part of another
  std::map<ValueId, std::vector<uint32_t>> fetches_;
  Partition out_;
};

}  // namespace

Result<Partition> emit(const Part& part, const Order& order, const LayoutChoice& layouts) {
  return Emitter(part, order, layouts).run();
}

}  // namespace leat
