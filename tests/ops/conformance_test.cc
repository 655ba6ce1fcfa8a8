// Tests the rules for every op: see conformance.h.
#include "tests/ops/conformance.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "devices/base/text.h"
#include "ops/definitions/branches.h"
#include "ops/layers/layers.h"
#include "tests/catch.h"
#include "tests/ops/op_testing.h"

using namespace leat;
using namespace leat::testing;

namespace {

constexpr SymbolId kBatchSymbol = 1;

const std::vector<ConformanceCase>& cases() {
  static const std::vector<ConformanceCase> kCases = conformance_cases();
  return kCases;
}

const std::vector<ConformanceCase>& variants() {
  static const std::vector<ConformanceCase> kVariants = [] {
    std::vector<ConformanceCase> all;
    for (const ConformanceCase& c : cases()) {
      for (ConformanceCase& variant : dtype_variants(c)) all.push_back(std::move(variant));
    }
    return all;
  }();
  return kVariants;
}

const std::vector<ConformanceCase>& differentiable() {
  static const std::vector<ConformanceCase> kCases = [] {
    std::vector<ConformanceCase> some;
    for (const ConformanceCase& c : cases()) {
      if (!c.gradient.empty()) some.push_back(c);
    }
    return some;
  }();
  return kCases;
}

std::string text(const ConformanceCase& c) {
  std::vector<std::string> inputs;
  for (const Tensor& t : c.inputs) {
    inputs.push_back(t.valid() ? cat(dtype_name(t.dtype()), t.shape().to_string()) : "-");
  }
  std::string attrs;
  for (const auto& [name, attr] : c.attrs) {
    attrs += " " + name;
    if (const auto* i = std::get_if<int64_t>(&attr)) attrs += cat("=", *i);
    if (const auto* s = std::get_if<std::string>(&attr)) attrs += cat("=", *s);
  }
  return cat(c.op, "(", join(inputs, ", "), ")", attrs);
}

// Runs a section for each op, so that one failure does not hide others.
void for_each_op(const std::vector<ConformanceCase>& list,
                 const std::function<void(const ConformanceCase&)>& check) {
  std::map<std::string, std::vector<const ConformanceCase*>> by_op;
  for (const ConformanceCase& c : list) by_op[c.op].push_back(&c);
  for (const auto& [op, of_op] : by_op) {
    DYNAMIC_SECTION(op) {
      for (const ConformanceCase* c : of_op) {
        INFO(text(*c));
        check(*c);
      }
    }
  }
}

// Whether the results have the same bits. Fails the check at the first difference.
bool identical(const std::vector<Tensor>& actual, const std::vector<Tensor>& expected) {
  REQUIRE(actual.size() == expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    if (actual[i].identical(expected[i])) continue;
    int64_t at = 0;
    while (at < expected[i].elements() && actual[i].at(at) == expected[i].at(at)) ++at;
    FAIL_CHECK("output " << i << ", element " << at << ": expected " << expected[i].at(at)
                         << ", received " << actual[i].at(at));
    return false;
  }
  return true;
}

void check_memory(const ConformanceCase& c, const std::vector<Tensor>& expected) {
  Conditions conditions;
  conditions.before = 0xFF;  // NaN, -1, and an invalid bool
  INFO("memory was not zero beforehand");
  identical(run_case(c, conditions), expected);
}

void check_known_values(const ConformanceCase& c, const std::vector<Tensor>& expected) {
  Conditions conditions;
  conditions.all_known = false;
  INFO("the values of large operands were not known");
  identical(run_case(c, conditions), expected);
}

void check_threads(const ConformanceCase& c, const std::vector<Tensor>& expected) {
  for (const int threads : {1, 2, 3, 4}) {
    Conditions conditions;
    conditions.threads = threads;
    INFO(threads << " threads");
    identical(run_case(c, conditions), expected);
  }
  Conditions conditions;
  conditions.reverse = true;
  INFO("tiles last to first");
  identical(run_case(c, conditions), expected);
}

Tiling tiling_of(const ConformanceCase& c) {
  const OpDef& op = op_of(c);
  if (!op.tiling) return {};
  const Attrs attrs = with_defaults(op, c.attrs);
  return op.tiling(types_of(c, attrs));
}

// Returns the results, or with `rows` only those of rows.
std::vector<Tensor> chosen(const std::vector<Tensor>& results, const Tiling& tiling, bool rows) {
  std::vector<Tensor> out;
  for (size_t i = 0; i < results.size(); ++i) {
    if (!rows || ((tiling.row_outputs >> i) & 1)) out.push_back(results[i]);
  }
  return out;
}

// Outputs of rows never depend on the tile's size. Others may, if the tiling fixes it.
void check_tile_rows(const ConformanceCase& c, const std::vector<Tensor>& expected,
                     const std::vector<int64_t>& sizes) {
  const Tiling tiling = tiling_of(c);
  if (tiling.rows == 0) return;
  std::set<int64_t> tried(sizes.begin(), sizes.end());
  tried.insert(tiling.rows);
  if (tiling.fixed_rows > 0) tried.insert(tiling.fixed_rows);
  for (const int64_t rows : tried) {
    Conditions conditions;
    conditions.tile_rows = rows;
    conditions.reverse = rows % 2 == 0;
    const bool free = tiling.fixed_rows > 0 && rows != tiling.fixed_rows;
    INFO("tiles of " << rows << " rows, fixed_rows is " << tiling.fixed_rows);
    for (const bool apart : {false, true}) {
      conditions.rows_apart = apart;
      INFO("rows " << (apart ? "apart" : "together"));
      if (!identical(chosen(run_case(c, conditions), tiling, free), chosen(expected, tiling, free)))
        return;
    }
  }
}

void check_in_place(const ConformanceCase& c, const std::vector<Tensor>& expected) {
  const OpDef& op = op_of(c);
  const Attrs attrs = with_defaults(op, c.attrs);
  const OpTypes types = types_of(c, attrs);
  for (const auto& [output, input] : op.in_place) {
    if (!types.has_output(output) || !types.has_input(input)) continue;
    if (types.outputs[static_cast<size_t>(output)].bytes() !=
        types.inputs[static_cast<size_t>(input)].bytes())
      continue;
    for (const bool reverse : {false, true}) {
      Conditions conditions;
      conditions.in_place = {{output, input}};
      conditions.reverse = reverse;
      conditions.tile_rows = tiling_of(c).rows > 0 && tiling_of(c).fixed_rows == 0 ? 5 : 0;
      INFO("output " << output << " in the memory of input " << input);
      identical(run_case(c, conditions), expected);
    }
  }
}

double tolerance_of(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return 1e-10;
    case DType::f32:
      return 2e-4;
    case DType::f16:
      return 2e-2;
    case DType::bf16:
      return 1e-1;
    default:
      return 0;
  }
}

void check_layouts(const ConformanceCase& c, const std::vector<Tensor>& expected) {
  const OpDef& op = op_of(c);
  if (!op.layouts) return;
  const Attrs attrs = with_defaults(op, c.attrs);
  const LayoutSupport support = op.layouts(types_of(c, attrs));
  if ((support.inputs | support.outputs) == 0) return;
  Conditions conditions;
  conditions.blocked = true;
  const std::vector<Tensor> blocked = run_case(c, conditions);
  for (size_t i = 0; i < expected.size(); ++i) {
    INFO("blocked, output " << i);
    const double t = tolerance_of(expected[i].dtype());
    check_close(blocked[i], expected[i], t, t);
  }
  for (const int64_t rows : {int64_t{0}, int64_t{1}, int64_t{5}}) {
    const Tiling tiling = tiling_of(c);
    if (rows > 0 && (tiling.rows == 0 || tiling.fixed_rows > 0)) continue;
    conditions.tile_rows = rows;
    conditions.threads = 3;
    conditions.rows_apart = rows == 5;
    INFO("blocked, tiles of " << rows << " rows");
    identical(run_case(c, conditions), blocked);
  }
}

// --- inference -----------------------------------------------------------------------------------

bool of_batch(const ConformanceCase& c, const Tensor& tensor) {
  return c.symbolic && tensor.valid() && tensor.shape().rank() > 0 && tensor.shape()[0] == kBatch;
}

void check_dims(const SymbolicShape& inferred, const Shape& actual) {
  REQUIRE(inferred.rank() == actual.rank());
  for (int i = 0; i < inferred.rank(); ++i) {
    const Dim dim = inferred[i];
    INFO("dimension " << i << " is " << dim.factor << " x symbol " << dim.symbol << ", in truth "
                      << actual[i]);
    if (dim.is_constant()) CHECK(dim.factor == actual[i]);
    if (dim.symbol == kBatchSymbol) CHECK(dim.factor * kBatch == actual[i]);
  }
}

// The batch is a symbol, and no operand of the batch is known.
void check_inference(const ConformanceCase& c, const std::vector<Tensor>& results) {
  std::vector<ValueType> types;
  std::vector<Tensor> values;
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    const Tensor& tensor = c.inputs[i];
    ValueType type;
    if (tensor.valid()) type = tensor_type(tensor.dtype(), SymbolicShape(tensor.shape()));
    if ((c.resources >> i) & 1) type.kind = ValueKind::resource;
    if (of_batch(c, tensor)) type.shape.set(0, Dim::of_symbol(kBatchSymbol));
    types.push_back(type);
    values.push_back(of_batch(c, tensor) || type.kind == ValueKind::resource ? Tensor() : tensor);
  }
  const auto outcome = infer(c.op, types, c.attrs, c.outputs, values);
  INFO(outcome.status());
  REQUIRE(outcome.ok());
  for (int i = 0; i < c.outputs; ++i) {
    const auto at = static_cast<size_t>(i);
    INFO("output " << i);
    if (outcome->outputs[at].kind != ValueKind::tensor) continue;
    CHECK(outcome->outputs[at].dtype == results[at].dtype());
    check_dims(outcome->outputs[at].shape, results[at].shape());
    const Tensor& known = outcome->constants.size() > at ? outcome->constants[at] : Tensor();
    if (known.valid()) CHECK(known.identical(results[at]));
  }
}

}  // namespace

TEST_CASE("every op has a conformance case or a reason to have none") {
  std::set<std::string> covered;
  for (const ConformanceCase& c : cases()) covered.insert(c.op);
  for (const ExemptOp& exempt : exempt_ops()) {
    INFO(exempt.op << ", exempt because it is " << exempt.reason);
    CHECK(test_catalogue().find(exempt.op) != nullptr);
    CHECK(covered.insert(exempt.op).second);
  }
  for (const OpDef* op : test_catalogue().all()) {
    if (is_layer(*op) || op->domain == kWhen) continue;  // stand for other ops
    INFO(op->full_name() << " has no case in tests/ops/conformance_cases.cc");
    CHECK(covered.count(op->full_name()) == 1);
  }
}

TEST_CASE("every rule of an op has a case that it applies to") {
  std::set<std::string> cut, blocked;
  for (const ConformanceCase& c : cases()) {
    const OpDef& op = op_of(c);
    const Attrs attrs = with_defaults(op, c.attrs);
    if (op.tiling && op.tiling(types_of(c, attrs)).rows > 1) cut.insert(c.op);
    if (!op.layouts) continue;
    const LayoutSupport support = op.layouts(types_of(c, attrs));
    if ((support.inputs | support.outputs) != 0) blocked.insert(c.op);
  }
  std::set<std::string> exempt;
  for (const ExemptOp& op : exempt_ops()) exempt.insert(op.op);
  for (const OpDef* op : test_catalogue().all()) {
    if (exempt.count(op->full_name()) == 1 || op->domain == kWhen) continue;
    INFO(op->full_name());
    if (op->tiling) CHECK(cut.count(op->full_name()) == 1);
    const bool of_floats = op->outputs[0].type != "bool";  // only floats are ever blocked
    if (op->layouts && of_floats) CHECK(blocked.count(op->full_name()) == 1);
  }
}

TEST_CASE("an op's outputs are what inference says") {
  for_each_op(cases(), [](const ConformanceCase& c) { check_inference(c, run_case(c)); });
}

TEST_CASE("an op's bits depend on its inputs alone") {
  for_each_op(cases(), [](const ConformanceCase& c) {
    const std::vector<Tensor> expected = run_case(c);
    check_memory(c, expected);
    check_known_values(c, expected);
    check_threads(c, expected);
  });
}

TEST_CASE("an op's bits do not depend on how its rows are cut") {
  for_each_op(cases(), [](const ConformanceCase& c) {
    check_tile_rows(c, run_case(c), {1, 2, 3, 5, 8, 16});
  });
}

TEST_CASE("an op that may work in place gives the same bits there") {
  for_each_op(cases(), [](const ConformanceCase& c) { check_in_place(c, run_case(c)); });
}

TEST_CASE("an op that takes a blocked layout gives the same values in it") {
  for_each_op(cases(), [](const ConformanceCase& c) { check_layouts(c, run_case(c)); });
}

TEST_CASE("an op runs in every type that its signature allows") {
  for_each_op(variants(), [](const ConformanceCase& c) {
    const std::vector<Tensor> expected = run_case(c);
    check_memory(c, expected);
    check_tile_rows(c, expected, {1, 5});
    check_in_place(c, expected);
    check_layouts(c, expected);
  });
}

TEST_CASE("every gradient agrees with finite differences") {
  for_each_op(differentiable(), [](const ConformanceCase& c) {
    std::vector<Tensor> inputs;
    for (const Tensor& t : c.inputs)
      inputs.push_back(t.dtype() == DType::f32 ? t.cast(DType::f64) : t);
    check_gradients(c.op, inputs, c.attrs, c.gradient, c.outputs);
  });
}

TEST_CASE("every gradient has a case") {
  std::set<std::string> checked;
  for (const ConformanceCase& c : differentiable()) checked.insert(c.op);
  for (const ExemptOp& exempt : exempt_gradients()) CHECK(checked.insert(exempt.op).second);
  for (const OpDef* op : test_catalogue().all()) {
    INFO(op->full_name() << " has a gradient that no case checks");
    if (op->gradient) CHECK(checked.count(op->full_name()) == 1);
  }
}
