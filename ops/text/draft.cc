#include "ops/text/draft.h"

#include <algorithm>
#include <charconv>
#include <set>
#include <unordered_map>
#include <utility>

#include "devices/base/text.h"
#include "ops/graph/limits.h"
#include "ops/graph/op.h"
#include "ops/text/composites.h"

namespace leat {
namespace {

using Names = std::vector<DraftName>;

// Collects the names that regions use and do not define, in order of first use, each once.
void collect_free(const DraftGraph& graph, std::set<std::string>& seen, Names& free) {
  // `defined` grows node by node, because a name that is used above its definition is not the
  // region's own: it must come from the graph around it.
  std::set<std::string> defined;
  for (const DraftValue& input : graph.inputs) defined.insert(input.name.name);
  for (const DraftConstant& constant : graph.constants) defined.insert(constant.name.name);
  const auto use = [&](const DraftName& name) {
    if (name.name.empty() || defined.contains(name.name)) return;
    if (seen.insert(name.name).second) free.push_back(name);
  };
  for (const DraftNode& node : graph.nodes) {
    for (const DraftName& input : node.inputs) use(input);
    for (const auto& [_, attr] : node.attrs) {
      // The names that a nested region lacks may be defined here. Only the others are free.
      const auto* region = std::get_if<std::shared_ptr<DraftGraph>>(&attr);
      if (region == nullptr) continue;
      Names inner;
      std::set<std::string> inner_seen;
      collect_free(**region, inner_seen, inner);
      for (const DraftName& name : inner) use(name);
    }
    for (const DraftName& output : node.outputs) defined.insert(output.name);
  }
  for (const DraftValue& output : graph.outputs) use(output.name);
}

// Collects the free names of all regions of the node. `seen` is shared between the regions, so that
// a name that two branches use becomes one capture.
Names free_names(const DraftNode& node) {
  Names free;
  std::set<std::string> seen;
  for (const auto& [_, attr] : node.attrs) {
    const auto* region = std::get_if<std::shared_ptr<DraftGraph>>(&attr);
    if (region != nullptr) collect_free(**region, seen, free);
  }
  return free;
}

// Converts an int to a float if the op declares a float, because people write rate = 1. Converts an
// int to a list if a layer declares a list: kernel = 3.
Attr fit(Attr attr, const OpDef& op, std::string_view name) {
  const auto def = std::find_if(op.attributes.begin(), op.attributes.end(),
                                [&](const AttrDef& d) { return d.name == name; });
  if (def == op.attributes.end()) return attr;
  if (const auto* number = std::get_if<int64_t>(&attr); number && def->kind == "float") {
    return static_cast<double>(*number);
  }
  if (const auto* number = std::get_if<int64_t>(&attr);
      number && def->kind == "ints" && op.domain == "leat") {
    return std::vector<int64_t>{*number};
  }
  if (const auto* list = std::get_if<std::vector<int64_t>>(&attr); list && def->kind == "floats") {
    return std::vector<double>(list->begin(), list->end());
  }
  return attr;
}

// Builds one graph. Each region has an assembler of its own that shares the totals.
class Assembler {
 public:
  // The counts of the whole file: a region must not get around the limits by its nesting, and
  // sources number the nodes of all graphs in the order of the file.
  struct Totals {
    uint32_t sources = 0;
    size_t nodes = 0, edges = 0;
    uint64_t constant_bytes = 0;
  };

  Assembler(const DraftGraph& draft, const Catalogue& catalogue, const Locate& locate,
            Totals& totals)
      : draft_(draft), locate_(locate), totals_(totals), graph_(catalogue) {}

  // Builds the graph. The order is that of the definitions: inputs, captures, constants, nodes. The
  // outputs come last, because they may name any of these.
  Result<Graph> run(const Names& captures) {
    graph_.name = draft_.name;
    LEAT_RETURN_IF_ERROR(add_borders(captures));
    for (const DraftConstant& constant : draft_.constants) {
      LEAT_RETURN_IF_ERROR(add_constant(constant));
    }
    for (const DraftNode& node : draft_.nodes) LEAT_RETURN_IF_ERROR(add_node(node));
    LEAT_RETURN_IF_ERROR(close());
    return std::move(graph_);
  }

 private:
  Status error(size_t offset, std::string_view message) const {
    return invalid_argument(cat(locate_(offset), ": ", message));
  }

  // Makes the name known to all that follows. A name with '%' connects values, but the graph itself
  // does not keep it.
  Status define(const DraftName& name, ValueId value) {
    const auto [it, fresh] = values_.emplace(name.name, std::pair(value, name.offset));
    if (!fresh) {
      return error(name.offset, cat("the value '", name.name, "' is defined twice, first at ",
                                    locate_(it->second.second)));
    }
    if (!name.name.starts_with('%')) graph_.set_value_name(value, name.name);
    return {};
  }

  // Returns the value with this name, kNone for an absent operand. An unknown name is an error,
  // which suggests a similar one; the search for it is skipped in large graphs, where it would take
  // long.
  Result<ValueId> find(const DraftName& name) const {
    if (name.name.empty()) return kNone;
    const auto it = values_.find(name.name);
    if (it != values_.end()) return it->second.first;
    std::vector<std::string> known;
    for (const auto& [n, _] : values_) known.push_back(n);
    std::sort(known.begin(), known.end());
    return error(name.offset, cat("expected a value defined above, got '", name.name, "'",
                                  known.size() > 10'000 ? "" : did_you_mean(name.name, known)));
  }

  // Converts a size: a number, a fresh symbol for an unknown size, a symbol, or a multiple of one.
  Result<Dim> dim(const DraftDim& draft, size_t offset) {
    if (draft.size) {
      if (*draft.size >= 0) return Dim::of(*draft.size);
      return error(offset, cat("expected a size of at least 0, got ", *draft.size));
    }
    if (draft.symbol.empty()) return Dim::of_symbol(graph_.fresh_symbol());
    std::string_view symbol = draft.symbol;
    int64_t factor = 1;
    if (const size_t star = symbol.find('*'); star != std::string_view::npos) {
      const auto [end, failure] = std::from_chars(symbol.data(), symbol.data() + star, factor);
      if (failure != std::errc() || end != symbol.data() + star || factor < 1) {
        return error(offset, cat("expected a size such as \"2*N\", got \"", symbol, "\""));
      }
      symbol.remove_prefix(star + 1);
    }
    if (symbol.empty() || symbol.size() > limits::kNameLength ||
        symbol.find('*') != std::string_view::npos) {
      return error(offset, "expected a size's name of 1 to 1024 bytes without '*'");
    }
    return Dim::of_symbol(graph_.symbol(symbol), factor);
  }

  Result<ValueType> type(const DraftValue& value) {
    ValueType type;
    if (!value.type) return type;
    type.kind = value.type->kind;
    type.dtype = value.type->dtype;
    if (value.type->dims.size() > limits::kRank) {
      return error(value.name.offset,
                   cat("the value '", value.name.name, "': expected at most ", limits::kRank,
                       " dimensions, got ", value.type->dims.size()));
    }
    for (const DraftDim& d : value.type->dims) {
      LEAT_ASSIGN_OR_RETURN(const Dim size, dim(d, value.name.offset));
      type.shape.push_back(size);
    }
    return type;
  }

  // The inputs of the graph are the declared ones and then the captures, in the same order in which
  // add_captures() appends them to the inputs of the node. A capture has no type before inference.
  Status add_borders(const Names& captures) {
    for (const DraftValue& input : draft_.inputs) {
      LEAT_ASSIGN_OR_RETURN(ValueType t, type(input));
      LEAT_RETURN_IF_ERROR(define(input.name, graph_.add_input("", std::move(t))));
    }
    for (const DraftName& capture : captures) {
      LEAT_RETURN_IF_ERROR(define(capture, graph_.add_input("", ValueType())));
    }
    for (const auto& [symbol, bound] : draft_.bounds) {
      graph_.symbol_info(graph_.symbol(symbol)).bound = bound;
    }
    return {};
  }

  // Counts a node with its inputs, before anything is built of it.
  Status count(const DraftName& where, size_t inputs) {
    totals_.edges += inputs;
    if (++totals_.nodes > limits::kNodes) {
      return error(where.offset, cat("expected at most ", limits::kNodes, " nodes"));
    }
    if (totals_.edges > limits::kEdges) {
      return error(where.offset, cat("expected at most ", limits::kEdges, " edges"));
    }
    return {};
  }

  // An initializer becomes a Constant node, which has a source number as any other node.
  Status add_constant(const DraftConstant& constant) {
    LEAT_RETURN_IF_ERROR(count(constant.name, 0));
    totals_.constant_bytes += constant.value.bytes();
    if (totals_.constant_bytes > limits::kConstantBytes) {
      return error(constant.name.offset, cat("expected constants of at most ",
                                             human_bytes(limits::kConstantBytes), " in all"));
    }
    Result<NodeId> node = graph_.add_node("", "Constant", {}, {{"value", constant.value}}, 1);
    if (!node.ok()) return error(constant.name.offset, node.status().message());
    graph_.node(*node).source = totals_.sources++;
    return define(constant.name, graph_.node(*node).outputs[0]);
  }

  Status add_node(const DraftNode& draft) {
    LEAT_RETURN_IF_ERROR(count({draft.name, draft.offset}, draft.inputs.size()));
    const std::string_view domain = draft.domain == "ai.onnx" ? std::string_view() : draft.domain;
    const OpDef* op = graph_.catalogue().find(domain, draft.op);
    if (op == nullptr) {
      const std::string name = domain.empty() ? draft.op : cat(domain, ".", draft.op);
      return error(draft.offset, cat("expected a known op, got '", name, "'",
                                     graph_.catalogue().suggestion(name)));
    }
    // The node takes its number before its regions are assembled, as in the order of the file.
    const uint32_t source = totals_.sources++;
    LEAT_ASSIGN_OR_RETURN(std::vector<ValueId> inputs, find_inputs(draft.inputs));
    LEAT_ASSIGN_OR_RETURN(Attrs attrs, build_attrs(draft, *op, inputs));
    const NodeId id = graph_.add_node(*op, std::move(inputs), std::move(attrs), 0);
    graph_.node(id).source = source;
    // A made-up name, "%n5", is gone; that of a composite's part, "%Mish 'act'", stays.
    graph_.node(id).name = draft.name.starts_with("%n") ? "" : draft.name;
    LEAT_RETURN_IF_ERROR(take_reserved(id, draft.offset));
    if (!draft.name.empty()) nodes_.emplace(draft.name, id);
    return add_outputs(id, draft.outputs);
  }

  Result<std::vector<ValueId>> find_inputs(const Names& names) const {
    std::vector<ValueId> values;
    for (const DraftName& name : names) {
      LEAT_ASSIGN_OR_RETURN(const ValueId value, find(name));
      values.push_back(value);
    }
    return values;
  }

  // Makes the outputs that have a name. The list keeps places of absent outputs at its end, because
  // the number of outputs that the file has written is part of the node.
  Status add_outputs(NodeId id, const Names& names) {
    for (size_t i = 0; i < names.size(); ++i) {
      if (names[i].name.empty()) continue;
      LEAT_RETURN_IF_ERROR(define(names[i], graph_.ensure_output(id, static_cast<int>(i))));
    }
    if (graph_.node(id).outputs.size() < names.size()) {
      graph_.node(id).outputs.resize(names.size(), kNone);
    }
    return {};
  }

  // The op's attributes. Regions are assembled, and their captures become inputs of the node.
  Result<Attrs> build_attrs(const DraftNode& draft, const OpDef& op, std::vector<ValueId>& inputs) {
    const Names captures = free_names(draft);
    if (!captures.empty()) {
      LEAT_RETURN_IF_ERROR(add_captures(draft, op, captures, inputs));
    }
    Attrs attrs;
    for (const auto& [name, value] : draft.attrs) {
      if (const auto* region = std::get_if<std::shared_ptr<DraftGraph>>(&value)) {
        // Every region gets all captures of the node, even those that only another region uses: all
        // of them take the same additional inputs.
        Assembler inner(**region, graph_.catalogue(), locate_, totals_);
        LEAT_ASSIGN_OR_RETURN(Graph graph, inner.run(captures));
        attrs[name] = std::make_shared<Graph>(std::move(graph));
      } else {
        attrs[name] = fit(std::get<Attr>(value), op, name);
      }
    }
    if (!captures.empty()) attrs["captures"] = static_cast<int64_t>(captures.size());
    return attrs;
  }

  // Appends the captured values to the node's inputs. A file that already has `captures` has listed
  // them itself, so a further free name in it is an error.
  Status add_captures(const DraftNode& draft, const OpDef& op, const Names& captures,
                      std::vector<ValueId>& inputs) const {
    if (draft.attrs.contains("captures")) {
      return error(captures[0].offset, cat("expected a value of the region, for its node counts "
                                           "its captures; got '",
                                           captures[0].name, "'"));
    }
    // Absent operands before the variadic ones must not count as captures.
    const auto fixed = std::count_if(op.inputs.begin(), op.inputs.end(),
                                     [](const Operand& o) { return !o.variadic; });
    if (inputs.size() < static_cast<size_t>(fixed)) {
      inputs.resize(static_cast<size_t>(fixed), kNone);
    }
    LEAT_ASSIGN_OR_RETURN(const std::vector<ValueId> values, find_inputs(captures));
    inputs.insert(inputs.end(), values.begin(), values.end());
    return {};
  }

  // Removes `name` from the node's attributes and returns it, if it is there with kind T.
  template <typename T>
  Result<std::optional<T>> take(NodeId id, std::string_view name, size_t offset) {
    Attrs& attrs = graph_.node(id).attrs;
    const auto it = attrs.find(name);
    if (it == attrs.end()) return std::optional<T>();
    const T* value = std::get_if<T>(&it->second);
    if (value == nullptr) {
      return error(offset, cat("the attribute '", name, "': expected ", attr_kind(Attr(T())),
                               ", got ", attr_kind(it->second)));
    }
    std::optional<T> taken = *value;
    attrs.erase(it);
    return taken;
  }

  // Moves the attributes that belong to the graph from the node's attributes to the node's own
  // fields.
  Status take_reserved(NodeId id, size_t offset) {
    LEAT_ASSIGN_OR_RETURN(auto device, take<std::string>(id, "device", offset));
    if (device) graph_.node(id).device = *device;
    LEAT_ASSIGN_OR_RETURN(auto source, take<int64_t>(id, "source", offset));
    if (source) {
      if (*source < 0 || *source >= int64_t{kNone}) {
        return error(offset,
                     cat("the attribute 'source': expected 0 to ", kNone - 1, ", got ", *source));
      }
      graph_.node(id).source = static_cast<uint32_t>(*source);
    }
    LEAT_ASSIGN_OR_RETURN(auto first_row, take<int64_t>(id, "first_row", offset));
    if (first_row) graph_.node(id).first_row = *first_row;
    LEAT_ASSIGN_OR_RETURN(auto after, take<std::vector<std::string>>(id, "after", offset));
    if (!after) return {};
    for (const std::string& name : *after) {
      // Only nodes above are known by now, so control edges alone cannot make a cycle.
      LEAT_ASSIGN_OR_RETURN(const NodeId before, find_node(name, offset));
      graph_.node(id).after.push_back(before);
    }
    return {};
  }

  // The node that makes the value `name`, or the node with that name if it is "[name]".
  Result<NodeId> find_node(const std::string& name, size_t offset) const {
    if (const auto it = values_.find(name); it != values_.end()) {
      const NodeId producer = graph_.value(it->second.first).producer;
      if (producer != kNone) return producer;
    }
    if (name.size() > 2 && name.front() == '[' && name.back() == ']') {
      const auto it = nodes_.find(name.substr(1, name.size() - 2));
      if (it != nodes_.end()) return it->second;
    }
    return error(offset,
                 cat("the attribute 'after': expected the name of a value that a node above "
                     "makes, got '",
                     name, "'"));
  }

  // Reads the declared types and the outputs, when all values are known.
  Status close() {
    for (const DraftValue& declared : draft_.types) {
      LEAT_RETURN_IF_ERROR(declare(declared));
    }
    for (const DraftValue& output : draft_.outputs) {
      LEAT_RETURN_IF_ERROR(declare(output));
      LEAT_ASSIGN_OR_RETURN(const ValueId value, find(output.name));
      graph_.add_output(value);
    }
    return {};
  }

  // Gives a value the type that the file declares for it. An input keeps the type of its own
  // declaration, and validate() infers the types of the others again.
  Status declare(const DraftValue& declared) {
    LEAT_ASSIGN_OR_RETURN(const ValueId value, find(declared.name));
    if (value == kNone) return error(declared.name.offset, "expected a name, got \"\"");
    if (!declared.type || graph_.value(value).producer == kNone) return {};
    LEAT_ASSIGN_OR_RETURN(graph_.value(value).type, type(declared));
    return {};
  }

  const DraftGraph& draft_;
  const Locate& locate_;
  Totals& totals_;
  Graph graph_;
  std::unordered_map<std::string, std::pair<ValueId, size_t>> values_;
  std::unordered_map<std::string, NodeId> nodes_;
};

}  // namespace

bool is_reserved_attribute(std::string_view name) {
  return name == "after" || name == "device" || name == "source" || name == "first_row";
}

Result<Graph> assemble(const DraftGraph& draft, const Catalogue& catalogue, const Locate& locate) {
  DraftGraph simple = draft;
  LEAT_RETURN_IF_ERROR(expand_composites(simple, locate));
  Assembler::Totals totals;
  return Assembler(simple, catalogue, locate, totals).run({});
}

}  // namespace leat
