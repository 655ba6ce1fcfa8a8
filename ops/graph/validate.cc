#include "ops/graph/validate.h"

#include <algorithm>
#include <map>

#include "devices/base/text.h"
#include "ops/graph/interpret.h"
#include "ops/graph/limits.h"
#include "ops/graph/sizes.h"

namespace leat {
namespace {

// The view of one call that the op's rule gets. It collects the types, which finish() checks.
class NodeInference final : public InferContext {
 public:
  NodeInference(const OpCall& call, Attrs attrs) : call_(call), attrs_(std::move(attrs)) {
    outcome_.outputs.resize(call.wanted.size());
    outcome_.constants.resize(call.wanted.size());
    outcome_.sizes.resize(call.wanted.size());
    set_.resize(call.wanted.size(), false);
  }
  int inputs() const override { return static_cast<int>(call_.inputs.size()); }
  int outputs() const override { return static_cast<int>(call_.wanted.size()); }
  bool has_input(int i) const override {
    return i < inputs() && call_.inputs[static_cast<size_t>(i)];
  }
  bool wants_output(int i) const override {
    return i < outputs() && call_.wanted[static_cast<size_t>(i)];
  }
  const ValueType& input(int i) const override { return *call_.inputs[static_cast<size_t>(i)]; }
  const Tensor* constant(int i) const override {
    return i < inputs() ? call_.constants[static_cast<size_t>(i)] : nullptr;
  }
  const Attrs& attrs() const override { return attrs_; }
  // Outputs past the named ones are ignored, so that a rule may set all optional ones.
  void set_output(int i, ValueType type) override {
    if (i >= outputs()) return;
    outcome_.outputs[static_cast<size_t>(i)] = std::move(type);
    set_[static_cast<size_t>(i)] = true;
  }
  void set_constant(int i, Tensor value) override {
    if (i < outputs()) outcome_.constants[static_cast<size_t>(i)] = std::move(value);
  }
  const SizeValues& sizes(int i) const override {
    static const SizeValues kUnknown;
    const auto at = static_cast<size_t>(i);
    return at < call_.sizes.size() ? call_.sizes[at] : kUnknown;
  }
  void set_sizes(int i, SizeValues values) override {
    if (i < outputs()) outcome_.sizes[static_cast<size_t>(i)] = std::move(values);
  }
  SymbolId fresh_symbol() override { return call_.fresh_symbol(); }
  std::string text(const SymbolicShape& shape) const override { return call_.shape_text(shape); }
  Status error(std::string_view message) const override {
    return invalid_argument(cat(call_.subject, ": ", message));
  }

  // Checks the outcome of the op's rule: every wanted output is set and sizes are in range.
  Result<OpOutcome> finish() {
    for (int i = 0; i < outputs(); ++i) {
      if (!wants_output(i)) continue;
      if (!set_[static_cast<size_t>(i)]) {
        return internal_error(cat(call_.subject, ": inference did not set output ", i));
      }
      LEAT_RETURN_IF_ERROR(check(i));
    }
    return std::move(outcome_);
  }

 private:
  Status check(int i) const {
    const ValueType& type = outcome_.outputs[static_cast<size_t>(i)];
    // A symbol counts as its factor, since it may turn out to be 1. Sizes of 0 are left out, so
    // that the others are checked all the same.
    int64_t elements = 1;
    for (Dim dim : type.shape.dims()) {
      if (dim.factor < 0) {
        return error(cat("output ", i, ": expected sizes >= 0, inferred ", text(type.shape)));
      }
      if (dim.factor == 0) continue;
      const auto product = checked_mul(elements, dim.factor);
      if (!product || *product > limits::kElements) {
        return error(cat("output ", i, ": expected at most ", limits::kElements,
                         " elements, inferred ", text(type.shape)));
      }
      elements = *product;
    }
    return {};
  }

  const OpCall& call_;
  Attrs attrs_;
  OpOutcome outcome_;
  std::vector<bool> set_;
};

// The formal operand of actual operand i; the last one stands for all the rest if it is variadic.
const Operand* operand_at(const std::vector<Operand>& operands, size_t i) {
  if (i < operands.size()) return &operands[i];
  if (!operands.empty() && operands.back().variadic) return &operands.back();
  return nullptr;
}

// Every operand that is not optional must be there, and there must not be more than the signature
// has.
Status check_arity(const OpCall& call) {
  const auto& formal = call.op->inputs;
  if (call.inputs.size() > formal.size() && (formal.empty() || !formal.back().variadic)) {
    return invalid_argument(cat(call.subject, ": expected at most ", formal.size(),
                                " inputs, received ", call.inputs.size()));
  }
  for (size_t i = 0; i < std::max(formal.size(), call.inputs.size()); ++i) {
    const bool present = i < call.inputs.size() && call.inputs[i];
    const Operand& operand = *operand_at(formal, i);
    if (!present && !operand.optional) {
      return invalid_argument(cat(call.subject, ": input ", i, " '", operand.name, "' is missing"));
    }
  }
  // A variadic output may have no value at all; any other output that is not optional must be
  // named.
  const auto& outputs = call.op->outputs;
  if (call.wanted.size() > outputs.size() && (outputs.empty() || !outputs.back().variadic)) {
    return invalid_argument(cat(call.subject, ": has at most ", outputs.size(), " outputs, ",
                                call.wanted.size(), " are named"));
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    const bool wanted = i < call.wanted.size() && call.wanted[i];
    if (!wanted && !outputs[i].optional && !outputs[i].variadic) {
      return invalid_argument(
          cat(call.subject, ": output ", i, " '", outputs[i].name, "' is missing"));
    }
  }
  return {};
}

std::string allowed_types(DTypeSet set) {
  std::vector<std::string> names;
  for (int t = 1; t < kDTypeCount; ++t) {
    if (set.has(static_cast<DType>(t))) names.emplace_back(dtype_name(static_cast<DType>(t)));
  }
  return join(names, ", ");
}

// An operand of type "any" takes every kind of value; the op's rule checks it.
Status check_kind(const OpCall& call, size_t i, const Operand& formal, const ValueType& type) {
  const bool wants_resource = formal.type == "resource", wants_token = formal.type == "token";
  const ValueKind expected = wants_resource ? ValueKind::resource
                             : wants_token  ? ValueKind::token
                                            : ValueKind::tensor;
  if (formal.type == "any" || type.kind == expected) return {};
  static constexpr std::string_view kNames[] = {"a tensor", "rows", "a resource", "a token"};
  return invalid_argument(cat(call.subject, ": input ", i, " '", formal.name, "': expected ",
                              kNames[static_cast<int>(expected)], ", received ",
                              kNames[static_cast<int>(type.kind)]));
}

// The first operand of a type variable binds it, and all later ones must have the same dtype. Mixed
// variadic operands do not bind it.
Status check_types(const OpCall& call) {
  std::map<std::string, std::pair<DType, size_t>, std::less<>> bound;
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    if (!call.inputs[i]) continue;
    const Operand& formal = *operand_at(call.op->inputs, i);
    const ValueType& type = *call.inputs[i];
    LEAT_RETURN_IF_ERROR(check_kind(call, i, formal, type));
    if (formal.type == "any" || type.kind != ValueKind::tensor) continue;
    const auto variable = call.op->types.find(formal.type);
    const auto complain = [&](const std::string& expected) {
      return invalid_argument(cat(call.subject, ": input ", i, " '", formal.name, "': expected ",
                                  expected, ", received ", type.dtype));
    };
    if (variable == call.op->types.end()) {
      if (dtype_name(type.dtype) != formal.type) return complain(formal.type);
      continue;
    }
    if (!variable->second.has(type.dtype))
      return complain("one of " + allowed_types(variable->second));
    if (formal.mixed) continue;
    const auto [it, fresh] = bound.try_emplace(formal.type, type.dtype, i);
    if (!fresh && it->second.first != type.dtype) {
      return complain(cat(it->second.first, " as input ", it->second.second, " has"));
    }
  }
  return {};
}

// Unknown names, wrong kinds and missing attributes are errors. A float may be written as an int.
Status check_attributes(const OpCall& call) {
  for (const auto& [name, attr] : *call.attrs) {
    const auto& defs = call.op->attributes;
    const auto def = std::find_if(defs.begin(), defs.end(),
                                  [&, &name = name](const AttrDef& d) { return d.name == name; });
    if (def == defs.end()) {
      std::vector<std::string> names;
      for (const AttrDef& d : defs) names.push_back(d.name);
      return invalid_argument(
          cat(call.subject, ": has no attribute '", name, "'", did_you_mean(name, names)));
    }
    const std::string_view kind = attr_kind(attr);
    const bool int_for_float = def->kind == "float" && kind == "int";
    // The text form of an empty list does not show its kind.
    const auto* ints = std::get_if<std::vector<int64_t>>(&attr);
    const bool empty_list = ints && ints->empty() && def->kind.ends_with('s');
    if (kind != def->kind && !int_for_float && !empty_list) {
      return invalid_argument(
          cat(call.subject, ": attribute '", name, "': expected ", def->kind, ", received ", kind));
    }
  }
  for (const AttrDef& def : call.op->attributes) {
    if (def.required && !has_attr(*call.attrs, def.name)) {
      return invalid_argument(
          cat(call.subject, ": attribute '", def.name, "' (", def.kind, ") is missing"));
    }
  }
  return {};
}

// Computes a pure op over small known values now, with its own kernel.
void fold(const OpCall& call, OpOutcome& outcome) {
  if (!call.op->pure() || call.inputs.empty()) return;
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    if (call.inputs[i] && !call.constants[i]) return;
  }
  // Large results are not worth their memory, and a rule that gave the value itself is trusted.
  for (size_t i = 0; i < outcome.outputs.size(); ++i) {
    if (!call.wanted[i]) continue;
    const auto shape = outcome.outputs[i].shape.concrete();
    if (!shape || shape->elements() > limits::kValueInference) return;
    if (outcome.constants[i].valid()) return;
  }
  std::vector<Tensor> inputs(call.inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (call.constants[i]) inputs[i] = *call.constants[i];
  }
  // A failure is no error here: the op then runs in the step, which reports it.
  auto values =
      run_op(*call.op, *call.attrs, inputs, static_cast<int>(call.wanted.size()), call.subject);
  if (values.ok()) outcome.constants = std::move(*values);
}

}  // namespace

Attrs with_defaults(const OpDef& op, const Attrs& attrs) {
  Attrs out = attrs;
  for (const AttrDef& def : op.attributes) {
    if (def.fallback && !out.contains(def.name)) out.emplace(def.name, *def.fallback);
  }
  return out;
}

Result<OpOutcome> infer_op(const OpCall& call) {
  // The order matters: check_types() looks up the operand of each input, which check_arity() has
  // found to exist.
  LEAT_RETURN_IF_ERROR(check_arity(call));
  LEAT_RETURN_IF_ERROR(check_types(call));
  LEAT_RETURN_IF_ERROR(check_attributes(call));
  NodeInference context(call, with_defaults(*call.op, *call.attrs));
  if (!call.op->infer) return internal_error(cat(call.subject, ": the op has no inference rule"));
  LEAT_RETURN_IF_ERROR(call.op->infer(context));
  return context.finish();
}

Inference::Inference(Graph& graph)
    : graph_(&graph),
      arithmetic_(std::make_unique<SizeArithmetic>([this] { return graph_->fresh_symbol(); })) {}
Inference::~Inference() = default;

Result<OpOutcome> Inference::outcome_of(NodeId id) {
  constants_.resize(graph_->values());
  sizes_.resize(graph_->values());
  const Node& node = graph_->node(id);
  OpCall call;
  call.op = node.op;
  call.attrs = &node.attrs;
  call.subject = graph_->describe_node(id);
  for (ValueId input : node.inputs) {
    call.inputs.push_back(input == kNone ? nullptr : &graph_->value(input).type);
    call.constants.push_back(input == kNone ? nullptr : constant(input));
    call.sizes.push_back(input == kNone ? SizeValues() : sizes_[input]);
  }
  while (!call.inputs.empty() && !call.inputs.back()) {  // absent inputs at the end do not count
    call.inputs.pop_back();
    call.constants.pop_back();
    call.sizes.pop_back();
  }
  for (ValueId output : node.outputs) call.wanted.push_back(output != kNone);
  // New symbols belong to the graph, so that no two nodes get the same one.
  call.fresh_symbol = [this] { return graph_->fresh_symbol(); };
  call.shape_text = [this](const SymbolicShape& shape) { return graph_->shape_text(shape); };
  LEAT_ASSIGN_OR_RETURN(OpOutcome outcome, infer_op(call));
  fold(call, outcome);
  propagate_sizes(call, *arithmetic_, outcome);
  return outcome;
}

// Types go into the graph, and known values into the table of this object.
void Inference::keep(const OpOutcome& outcome, const Node& node) {
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    if (node.outputs[i] == kNone) continue;
    graph_->value(node.outputs[i]).type = outcome.outputs[i];
    constants_[node.outputs[i]] = outcome.constants[i];
    sizes_[node.outputs[i]] = outcome.sizes[i];
  }
}

Status Inference::infer(NodeId id) {
  LEAT_ASSIGN_OR_RETURN(const OpOutcome outcome, outcome_of(id));
  keep(outcome, graph_->node(id));
  return {};
}

Status Inference::infer_more(NodeId id) {
  // The rule runs again and makes new symbols, for example for the sizes of a pool over a symbolic
  // image. They stand for the same sizes as those of the first run.
  const size_t known_symbols = graph_->symbols();
  LEAT_ASSIGN_OR_RETURN(OpOutcome outcome, outcome_of(id));
  const Node& node = graph_->node(id);
  std::map<SymbolId, SymbolId> renamed;  // new symbol -> the one from before
  const auto each_dim = [&](auto&& visit) {
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      if (node.outputs[i] == kNone) continue;
      const ValueType& before = graph_->value(node.outputs[i]).type;
      const bool had = before.dtype != DType::invalid || before.kind != ValueKind::tensor;
      SymbolicShape& shape = outcome.outputs[i].shape;
      for (int d = 0; d < shape.rank(); ++d) {
        if (shape[d].is_constant() || shape[d].symbol < known_symbols) continue;
        visit(shape, d, had && before.shape.rank() == shape.rank() ? before.shape[d] : Dim());
      }
    }
  };
  // First finds the pairs by the outputs that had a type before. Then it renames in all outputs,
  // the new ones included.
  each_dim([&](SymbolicShape& shape, int d, Dim before) {
    if (!before.is_constant() && before.factor == shape[d].factor)
      renamed.emplace(shape[d].symbol, before.symbol);
  });
  each_dim([&](SymbolicShape& shape, int d, Dim) {
    const auto it = renamed.find(shape[d].symbol);
    if (it != renamed.end()) shape.set(d, Dim::of_symbol(it->second, shape[d].factor));
  });
  keep(outcome, node);
  return {};
}

// The limits come first, because the order of nodes relies on references that exist.
Status Inference::run() {
  LEAT_RETURN_IF_ERROR(check_limits(*graph_));
  LEAT_ASSIGN_OR_RETURN(const auto order, graph_->topological_order());
  for (NodeId id : order) LEAT_RETURN_IF_ERROR(infer(id));
  return {};
}

const Tensor* Inference::constant(ValueId value) const {
  if (value >= constants_.size() || !constants_[value].valid()) return nullptr;
  return &constants_[value];
}

Status validate(Graph& graph) { return Inference(graph).run(); }

// All layouts are plain, because only a plan has others.
Result<OpTypes> concrete_types(const Graph& graph, const Node& node, const Attrs& attrs) {
  OpTypes types;
  types.attrs = &attrs;
  const auto convert = [&](ValueId value) -> Result<OperandType> {
    OperandType operand;
    if (value == kNone) return operand;
    const ValueType& type = graph.value(value).type;
    const auto shape = type.shape.concrete();
    if (!shape) {
      return failed_precondition(cat("value '", graph.describe(value),
                                     "': expected a concrete shape, it is ",
                                     graph.type_text(type)));
    }
    operand = {type.dtype, *shape, Layout::plain, type.kind, true};
    return operand;
  };
  for (ValueId input : node.inputs) {
    LEAT_ASSIGN_OR_RETURN(OperandType operand, convert(input));
    types.inputs.push_back(operand);
  }
  for (ValueId output : node.outputs) {
    LEAT_ASSIGN_OR_RETURN(OperandType operand, convert(output));
    types.outputs.push_back(operand);
  }
  return types;
}

}  // namespace leat
