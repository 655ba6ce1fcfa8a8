#include "ops/graph/sizes.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <string_view>
#include <utility>

#include "ops/graph/interpret.h"
#include "ops/graph/limits.h"
#include "ops/graph/op.h"

namespace leat {
namespace {

bool is_index(DType dtype) { return dtype == DType::i64 || dtype == DType::i32; }

// Integers as ONNX divides them: towards zero.
std::optional<int64_t> compute(std::string_view op, int64_t a, int64_t b) {
  int64_t result = 0;
  if (op == "Add" && !__builtin_add_overflow(a, b, &result)) return result;
  if (op == "Sub" && !__builtin_sub_overflow(a, b, &result)) return result;
  if (op == "Mul" && !__builtin_mul_overflow(a, b, &result)) return result;
  if (op == "Min") return std::min(a, b);
  if (op == "Max") return std::max(a, b);
  if (b == 0 || b == -1) return std::nullopt;  // -1 may overflow, and no size is divided by it
  if (op == "Div") return a / b;
  if (op == "Mod") return (a % b + b) % b;
  return std::nullopt;
}

// A result that needs no new symbol, such as N + 0, 2 N + N, N * 3, 4 N / 2.
std::optional<Dim> simplify(std::string_view op, Dim a, Dim b) {
  const bool same = a.symbol == b.symbol;
  if (a.is_constant() && b.is_constant()) {
    const auto value = compute(op, a.factor, b.factor);
    return value ? std::optional(Dim::of(*value)) : std::nullopt;
  }
  if ((op == "Min" || op == "Max") && a == b) return a;
  if (op == "Add" && b == Dim::of(0)) return a;
  if (op == "Add" && a == Dim::of(0)) return b;
  if (op == "Sub" && b == Dim::of(0)) return a;
  if (op == "Sub" && a == b) return Dim::of(0);
  const bool sums = op == "Add" || op == "Sub";
  if (sums && same) {
    const auto factor = compute(op, a.factor, b.factor);
    if (factor && *factor > 0) return Dim::of_symbol(a.symbol, *factor);
  }
  if (op == "Mul") {
    const auto product = multiply(a, b);
    if (product && product->factor >= 0) return product;
  }
  const bool divides = b.factor > 0 && a.factor % b.factor == 0;
  if (op == "Div" && divides && b.is_constant())
    return Dim::of_symbol(a.symbol, a.factor / b.factor);
  if (op == "Mod" && divides && b.is_constant()) return Dim::of(0);
  return std::nullopt;
}

bool is_arithmetic(std::string_view op) {
  static constexpr std::array<std::string_view, 7> kOps = {"Add", "Sub", "Mul", "Div",
                                                           "Mod", "Min", "Max"};
  return std::find(kOps.begin(), kOps.end(), op) != kOps.end();
}

// The elements of input i, from its constant or its sizes; nothing if neither is known.
std::optional<SizeValues> elements_of(const OpCall& call, size_t i) {
  if (const Tensor* constant = call.constants[i]) {
    if (!is_index(constant->dtype())) return std::nullopt;
    SizeValues values;
    for (int64_t k = 0; k < constant->elements(); ++k)
      values.emplace_back(Dim::of(constant->int_at(k)));
    return values;
  }
  if (!call.sizes[i].empty()) return call.sizes[i];
  return std::nullopt;
}

// The number of elements if it is known and small; else 0.
int64_t small_count(const ValueType& type) {
  const auto shape = type.shape.concrete();
  if (type.kind != ValueKind::tensor || !shape) return 0;
  const int64_t count = shape->elements();
  return count <= limits::kSizeInference ? count : 0;
}

// Applies `f` to the elements of two operands of `count` elements, or of one.
template <typename F>
void each_pair(const SizeValues& a, const SizeValues& b, int64_t count, F&& f) {
  const auto n = static_cast<size_t>(count);
  if ((a.size() != n && a.size() != 1) || (b.size() != n && b.size() != 1)) return;
  for (size_t k = 0; k < n; ++k) f(k, a[a.size() == 1 ? 0 : k], b[b.size() == 1 ? 0 : k]);
}

void compute_sizes(const OpCall& call, const SizeValues& a, const SizeValues& b,
                   SizeArithmetic& arithmetic, OpOutcome& outcome) {
  const int64_t count = small_count(outcome.outputs[0]);
  SizeValues values(static_cast<size_t>(count));
  each_pair(a, b, count, [&](size_t k, const auto& x, const auto& y) {
    if (x && y) values[k] = arithmetic.apply(call.op->name, *x, *y);
  });
  outcome.sizes[0] = std::move(values);
}

// The value is known if every pair of elements can be told apart.
void compare_sizes(const SizeValues& a, const SizeValues& b, const SizeArithmetic& arithmetic,
                   OpOutcome& outcome) {
  const int64_t count = small_count(outcome.outputs[0]);
  Tensor value(DType::boolean, *outcome.outputs[0].shape.concrete());
  int64_t known = 0;
  each_pair(a, b, count, [&](size_t k, const auto& x, const auto& y) {
    const auto equal = x && y ? arithmetic.equal(*x, *y) : std::nullopt;
    if (!equal) return;
    value.data<bool>()[k] = *equal;
    ++known;
  });
  if (known == count) outcome.constants[0] = std::move(value);
}

// Runs the op's own kernel on the places of the elements in a table instead of their values.
void move_sizes(const OpCall& call, OpOutcome& outcome) {
  SizeValues table;
  std::vector<Tensor> inputs(call.inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!call.inputs[i]) continue;
    const Operand& formal = call.op->inputs[std::min(i, call.op->inputs.size() - 1)];
    if (formal.type != call.op->outputs[0].type) {
      if (!call.constants[i]) return;
      inputs[i] = *call.constants[i];
      continue;
    }
    const auto values = elements_of(call, i);
    const auto shape = call.inputs[i]->shape.concrete();
    if (!values || !shape || static_cast<int64_t>(values->size()) != shape->elements()) return;
    std::vector<int64_t> places(values->size());
    std::iota(places.begin(), places.end(), static_cast<int64_t>(table.size()));
    table.insert(table.end(), values->begin(), values->end());
    inputs[i] = Tensor::of<int64_t>(*shape, places);
  }
  const auto moved =
      run_op(*call.op, *call.attrs, inputs, static_cast<int>(call.wanted.size()), call.subject);
  if (!moved.ok()) return;
  for (size_t i = 0; i < moved->size(); ++i) {
    const Tensor& places = (*moved)[i];
    if (!call.wanted[i] || !places.valid() || places.dtype() != DType::i64) continue;
    SizeValues values;
    for (int64_t k = 0; k < places.elements(); ++k)
      values.push_back(table[static_cast<size_t>(places.int_at(k))]);
    outcome.sizes[i] = std::move(values);
  }
}

// Sets the sizes of output 0, or of all outputs if the op moves elements, where nothing else tells
// them.
void find_sizes(const OpCall& call, SizeArithmetic& arithmetic, OpOutcome& outcome) {
  if (!call.op->pure() || call.inputs.empty() || outcome.outputs.empty()) return;
  if (outcome.constants[0].valid() || !outcome.sizes[0].empty()) return;
  const bool any = std::any_of(call.sizes.begin(), call.sizes.end(),
                               [](const SizeValues& sizes) { return !sizes.empty(); });
  if (!any || small_count(outcome.outputs[0]) == 0) return;
  if (call.op->moves && is_index(outcome.outputs[0].dtype)) return move_sizes(call, outcome);
  if (call.inputs.size() != 2 || !call.inputs[0] || !call.inputs[1]) return;
  const auto a = elements_of(call, 0), b = elements_of(call, 1);
  if (!a || !b || !call.op->domain.empty()) return;
  if (is_arithmetic(call.op->name)) compute_sizes(call, *a, *b, arithmetic, outcome);
  if (call.op->name == "Equal") compare_sizes(*a, *b, arithmetic, outcome);
}

// Makes sizes without a symbol a constant: rules ask for that, and nodes are folded by it.
void fix_known_sizes(OpOutcome& outcome, size_t i) {
  SizeValues& sizes = outcome.sizes[i];
  const auto shape = outcome.outputs[i].shape.concrete();
  const bool known = std::all_of(sizes.begin(), sizes.end(),
                                 [](const auto& size) { return size && size->is_constant(); });
  if (sizes.empty() || !known || outcome.constants[i].valid() || !shape) return;
  if (!is_index(outcome.outputs[i].dtype) ||
      shape->elements() != static_cast<int64_t>(sizes.size()))
    return;
  std::vector<int64_t> values;
  for (const auto& size : sizes) values.push_back(size->factor);
  outcome.constants[i] = Tensor::of<int64_t>(*shape, values).cast(outcome.outputs[i].dtype);
  sizes.clear();
}

}  // namespace

std::optional<Dim> SizeArithmetic::apply(const std::string& op, Dim a, Dim b) {
  if (!is_arithmetic(op)) return std::nullopt;
  if (const auto simple = simplify(op, a, b)) return simple;
  const bool divides = op == "Div" || op == "Mod";
  if (b.is_constant() && (a.is_constant() || (divides && b.factor <= 0))) return std::nullopt;
  const bool exchangeable = op != "Sub" && !divides;
  const auto key = [](Dim d) { return std::pair(d.symbol, d.factor); };
  if (exchangeable && key(b) < key(a)) std::swap(a, b);
  const auto [it, added] = made_.try_emplace({op, a.factor, a.symbol, b.factor, b.symbol}, kNone);
  if (added) {
    it->second = fresh_symbol_();
    const auto negative = [&](Dim d) {
      return d.is_constant() ? d.factor < 0 : may_be_negative_.contains(d.symbol);
    };
    if (op == "Sub" || negative(a) || negative(b)) may_be_negative_.emplace(it->second, true);
  }
  return Dim::of_symbol(it->second);
}

std::optional<bool> SizeArithmetic::equal(Dim a, Dim b) const {
  if (a == b) return true;
  if (a.is_constant() && b.is_constant()) return false;
  const auto negative = [](Dim d) { return d.is_constant() && d.factor < 0; };
  const auto size = [this](Dim d) {
    return !d.is_constant() && !may_be_negative_.contains(d.symbol);
  };
  if ((negative(a) && size(b)) || (negative(b) && size(a))) return false;
  return std::nullopt;
}

void propagate_sizes(const OpCall& call, SizeArithmetic& arithmetic, OpOutcome& outcome) {
  find_sizes(call, arithmetic, outcome);
  for (size_t i = 0; i < outcome.outputs.size(); ++i) fix_known_sizes(outcome, i);
}

}  // namespace leat
