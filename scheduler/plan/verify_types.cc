#include "scheduler/plan/verify_types.h"

#include <algorithm>

#include "devices/base/text.h"
#include "ops/graph/limits.h"
#include "ops/graph/validate.h"
#include "scheduler/graph/op_name.h"

namespace leat {
namespace {

// True if the product of the sizes that are not 0 is within limits: kernels multiply any of them.
bool sizes_fit(const Shape& shape) {
  int64_t product = 1;
  for (const int64_t size : shape) {
    if (size < 0) return false;
    if (size == 0) continue;
    const auto next = checked_mul(product, size);
    if (!next || *next > limits::kElements) return false;
    product = *next;
  }
  return true;
}

// A bit for each operand that has a layout other than the plain one. There are 32 bits, so the
// caller makes sure that all operands behind them are plain.
uint32_t blocked_operands(const std::vector<OperandType>& types) {
  uint32_t bits = 0;
  for (size_t k = 0; k < std::min<size_t>(types.size(), 32); ++k) {
    if (types[k].present && types[k].layout != Layout::plain) bits |= uint32_t{1} << k;
  }
  return bits;
}
uint32_t present_operands(const std::vector<OperandType>& types) {
  uint32_t bits = 0;
  for (size_t k = 0; k < std::min<size_t>(types.size(), 32); ++k) {
    if (types[k].present) bits |= uint32_t{1} << k;
  }
  return bits;
}
bool plain_from(const std::vector<OperandType>& types, size_t first) {
  return std::all_of(types.begin() + static_cast<std::ptrdiff_t>(std::min(first, types.size())),
                     types.end(), [](const OperandType& t) { return t.layout == Layout::plain; });
}

}  // namespace

std::string fault_of(const OperandType& type) {
  if (!sizes_fit(type.shape)) return cat("has a shape that is too large, ", type.shape);
  const bool known = static_cast<int>(type.dtype) < kDTypeCount;
  switch (type.kind) {
    case ValueKind::tensor:
      if (!known || dtype_size(type.dtype) == 0) return "is a tensor of no type";
      break;
    case ValueKind::resource:
      if (!known) return "is a resource of no type";
      break;
    case ValueKind::token:
      if (type.dtype != DType::invalid || type.shape.rank() != 0) return "is a token with a type";
      break;
    default:
      return "is of no kind that a plan can have";
  }
  // The other layouts are those of a [N, C, H, W] tensor, one of blocks of 16 channels.
  if (type.layout == Layout::plain) return "";
  const bool blocked = type.kind == ValueKind::tensor && type.shape.rank() == 4 &&
                       (type.layout == Layout::channels_last ||
                        (type.layout == Layout::channels16 && type.shape[1] % 16 == 0));
  return blocked ? "" : "has a layout that its type cannot have";
}

Result<std::vector<OperandType>> infer_concrete(const OpDef& op, const Attrs& attrs,
                                                const std::string& subject, const OpTypes& types,
                                                const std::vector<const Tensor*>& constants) {
  // The call is built from the plan's types alone: constants are known by their bytes, and no value
  // has a name. Inference then works as it does for a graph.
  std::vector<ValueType> inputs;
  for (const OperandType& type : types.inputs)
    inputs.push_back({type.kind, type.dtype, type.shape});
  OpCall call;
  call.op = &op;
  call.attrs = &attrs;
  call.subject = subject;
  for (size_t k = 0; k < inputs.size(); ++k)
    call.inputs.push_back(types.inputs[k].present ? &inputs[k] : nullptr);
  call.constants = constants;
  while (!call.inputs.empty() && !call.inputs.back()) {  // absent ones at the end do not count
    call.inputs.pop_back();
    call.constants.pop_back();
  }
  for (const OperandType& type : types.outputs) call.wanted.push_back(type.present);
  SymbolId symbols = 0;
  // A rule may answer with a symbol for a size that it cannot know. Such an output is refused
  // below.
  call.fresh_symbol = [&] { return symbols++; };
  call.shape_text = [](const SymbolicShape& shape) {
    std::vector<std::string> sizes;
    for (const Dim dim : shape.dims())
      sizes.push_back(dim.is_constant() ? std::to_string(dim.factor) : "?");
    return "[" + join(sizes, ",") + "]";
  };
  LEAT_ASSIGN_OR_RETURN(const OpOutcome outcome, infer_op(call));
  std::vector<OperandType> out(types.outputs.size());
  for (size_t k = 0; k < out.size(); ++k) {
    if (!types.outputs[k].present) continue;
    const ValueType& type = outcome.outputs[k];
    const auto shape = type.shape.concrete();
    if (!shape) {
      return invalid_argument(cat(subject, ": output ", k, ": expected a shape that follows from ",
                                  "the inputs, inferred ", call.shape_text(type.shape)));
    }
    out[k] = {type.dtype, *shape, Layout::plain, type.kind, true};
  }
  return out;
}

bool layouts_fit(const OpDef& op, const OpTypes& types) {
  if (!plain_from(types.inputs, 32) || !plain_from(types.outputs, 32)) return false;
  const uint32_t inputs = blocked_operands(types.inputs), outputs = blocked_operands(types.outputs);
  if (inputs == 0 && outputs == 0) return true;
  const auto has = [&](Layout layout) {
    const auto is_of = [&](const OperandType& type) { return type.layout == layout; };
    return std::any_of(types.inputs.begin(), types.inputs.end(), is_of) ||
           std::any_of(types.outputs.begin(), types.outputs.end(), is_of);
  };
  const bool blocks = has(Layout::channels16), last = has(Layout::channels_last);
  if (blocks && last) return false;
  if (is_op(op, "leat.Reorder")) return true;  // from one layout to the other
  // The op says which operands it can take blocked when all are plain. Those must be blocked
  // together.
  OpTypes plain = types;
  for (OperandType& type : plain.inputs) type.layout = Layout::plain;
  for (OperandType& type : plain.outputs) type.layout = Layout::plain;
  const auto fits = [&](const auto& rule) {
    const LayoutSupport support = rule(plain);
    return inputs == (support.inputs & present_operands(types.inputs)) &&
           outputs == (support.outputs & present_operands(types.outputs));
  };
  if (blocks) return op.layouts && fits(op.layouts);
  return std::any_of(op.device_layouts.begin(), op.device_layouts.end(),
                     [&](const auto& of_kind) { return fits(of_kind.second); });
}

}  // namespace leat
