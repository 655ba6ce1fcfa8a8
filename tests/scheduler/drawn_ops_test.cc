// Calls of ops with drawn types, shapes, values and attributes have the results of plain loops, the
// same bits however rows are cut and on any number of threads, or an error that says what is wrong.
//
//   LEAT_DRAWN_CALLS=100000 scheduler_tests 'calls of drawn ops*'
//   LEAT_DRAWN_FIRST: the number of the first call (1)
#include "tests/scheduler/drawn_ops.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "devices/base/text.h"
#include "ops/graph/interpret.h"
#include "ops/graph/validate.h"
#include "ops/text/composites.h"
#include "ops/text/parse.h"
#include "tests/environment_number.h"
#include "tests/scheduler/scheduler_testing.h"

namespace leat {
namespace {

double unit_of(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return 0x1p-52;
    case DType::f32:
      return 0x1p-23;
    case DType::f16:
      return 0x1p-10;
    case DType::bf16:
      return 0x1p-7;
    default:
      return 0;
  }
}

// The smallest normal number: those below it have fewer digits, or are 0.
double least_of(DType dtype) {
  return dtype == DType::f64 ? 0x1p-1022 : dtype == DType::f16 ? 0x1p-14 : 0x1p-126;
}

// Returns the bits of a whole number that an integer type keeps.
double kept(double value, DType dtype) {
  if (!std::isfinite(value) || dtype == DType::i64) return value;
  const double range = std::ldexp(1.0, static_cast<int>(8 * dtype_size(dtype)));
  value -= range * std::floor(value / range);
  return is_unsigned_int(dtype) || value < range / 2 ? value : value - range;
}

void check_output(const DrawnOp& op, const Tensor& actual, const PlainOutput& expected, int o) {
  REQUIRE(actual.shape() == expected.value.shape());
  const DType dtype = actual.dtype();
  if (o == 0) CHECK(dtype == (op.result == DType::invalid ? op.dtype() : op.result));
  // The operands may have been rounded to less than the result has.
  const double unit =
      op.slack * std::max(unit_of(dtype), is_float(dtype) ? unit_of(op.dtype()) : 0);
  for (int64_t i = 0; i < actual.elements(); ++i) {
    const double received = actual.at(i), value = expected.value.at(i);
    const double scale = expected.scale.valid() ? expected.scale.at(i) : 0;
    if (received == value || (std::isnan(received) && std::isnan(value))) continue;
    if (dtype == DType::boolean ? received == (value != 0)
                                : !is_float(dtype) && received == kept(value, dtype))
      continue;
    const double tolerance = std::max(unit * std::max(std::abs(value), scale), least_of(dtype));
    if (is_float(dtype) && std::abs(received - value) <= tolerance) continue;
    FAIL("output " << o << ", element " << i << ": expected " << value << " within " << tolerance
                   << ", received " << received);
  }
}

// The error says which op it is about, and what it expected or found.
void check_refusal(const DrawnOp& op, const Status& status, std::map<std::string, int>& messages) {
  const std::string& text = status.message();
  INFO("message: " << text);
  CHECK((status.code() == Code::invalid_argument || status.code() == Code::unimplemented));
  CHECK((text.find(op.op) != std::string::npos || is_composite("", op.op)));
  CHECK(text.size() > op.op.size() + 10);
  ++messages[cat(op.op, ": ", text)];
}

struct DrawnGraph {
  Graph graph{scheduler_catalogue()};
  std::map<ValueId, Tensor> feeds;
};

Result<DrawnGraph> make_graph(const DrawnOp& op) {
  LEAT_ASSIGN_OR_RETURN(Graph graph, parse_graph(graph_text(op), scheduler_catalogue(), "g"));
  LEAT_RETURN_IF_ERROR(validate(graph));
  DrawnGraph made{std::move(graph), {}};
  size_t next = 0;
  for (const DrawnInput& input : op.inputs) {
    if (input.value.valid() && !input.constant)
      made.feeds[made.graph.inputs()[next++]] = input.value;
  }
  return made;
}

// Compiles the graph, and runs it on `threads` threads.
std::vector<Tensor> run_compiled(const DrawnGraph& drawn, int threads) {
  CompileRequest request;
  for (const auto& [value, tensor] : drawn.feeds) request.borders.feeds.push_back(value);
  request.borders.fetches = drawn.graph.outputs();
  request.devices = cpus(1);
  PlanRunner runner(must(compile(drawn.graph, request)), threads);
  uint32_t i = 0;
  for (const auto& [value, tensor] : drawn.feeds) must(runner.feed(i++, tensor));
  must(runner.step_to(1));
  std::vector<Tensor> fetched;
  for (uint32_t o = 0; o < drawn.graph.outputs().size(); ++o)
    fetched.push_back(runner.fetched(o, 0));
  return fetched;
}

void check_same(const std::vector<Tensor>& actual, const std::vector<Tensor>& expected) {
  REQUIRE(actual.size() == expected.size());
  for (size_t o = 0; o < expected.size(); ++o) {
    if (actual[o].identical(expected[o])) continue;
    INFO("output " << o << ": expected " << expected[o] << ", received " << actual[o]);
    REQUIRE(actual[o].shape() == expected[o].shape());
    // NaNs may differ in bits that no op looks at.
    for (int64_t i = 0; i < expected[o].elements(); ++i) {
      const double a = actual[o].at(i), b = expected[o].at(i);
      if (!(std::isnan(a) && std::isnan(b)) && a != b) FAIL("element " << i << " differs");
    }
  }
}

Tensor rows_of(const Tensor& x, int64_t begin, int64_t count) {
  Shape shape = x.shape();
  const auto row = static_cast<size_t>(shape.elements(1, shape.rank())) * dtype_size(x.dtype());
  shape.set(0, count);
  Tensor out(x.dtype(), shape);
  if (out.elements() > 0) {
    std::memcpy(out.raw(), x.data<char>() + static_cast<size_t>(begin) * row,
                row * static_cast<size_t>(count));
  }
  return out;
}

bool of_rows(const std::vector<Spread>& spreads) {
  return std::all_of(spreads.begin(), spreads.end(),
                     [](const Spread& s) { return s.kind == Spread::whole || s == Spread::on(0); });
}

// Each half of the rows alone, where a rule of the op lets a strategy split them.
void check_halves(const DrawnOp& op, const std::vector<Tensor>& whole) {
  const OpDef* def = scheduler_catalogue().find(op.op);
  if (def == nullptr || !def->sharding) return;
  std::vector<Tensor> inputs;
  std::vector<OperandType> in, out;
  for (const DrawnInput& input : op.inputs) {
    inputs.push_back(input.value);
    const bool present = input.value.valid();
    in.push_back({present ? input.value.dtype() : DType::invalid,
                  present ? input.value.shape() : Shape(), Layout::plain, ValueKind::tensor,
                  present});
  }
  for (const Tensor& tensor : whole)
    out.push_back({tensor.dtype(), tensor.shape(), Layout::plain, ValueKind::tensor, true});
  for (const ShardingRule& rule : def->sharding(in, out, with_defaults(*def, op.attrs))) {
    if (!of_rows(rule.inputs) || !of_rows(rule.outputs) || rule.outputs[0] != Spread::on(0) ||
        rule.outputs.size() < whole.size())
      continue;
    if (whole[0].shape()[0] % 2 != 0) continue;
    bool even = true;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i].valid() && rule.inputs[i] == Spread::on(0))
        even = even && inputs[i].shape()[0] % 2 == 0;
    }
    for (int64_t half = 0; even && half < 2; ++half) {
      std::vector<Tensor> part = inputs;
      for (size_t i = 0; i < part.size(); ++i) {
        if (!part[i].valid() || rule.inputs[i] != Spread::on(0)) continue;
        const int64_t rows = part[i].shape()[0] / 2;
        part[i] = rows_of(part[i], half * rows, rows);
      }
      const auto result = run_op(*def, op.attrs, part, op.outputs, op.op);
      if (!result.ok()) continue;  // a shape that it is given is that of all rows
      for (size_t o = 0; o < whole.size(); ++o) {
        if (rule.outputs[o] != Spread::on(0)) continue;
        const int64_t rows = whole[o].shape()[0] / 2;
        if ((*result)[o].shape() != rows_of(whole[o], 0, rows).shape()) continue;
        INFO("half " << half << " of the rows");
        check_same({(*result)[o]}, {rows_of(whole[o], half * rows, rows)});
      }
    }
  }
}

void check_plain(const DrawnOp& op, const std::vector<Tensor>& results) {
  std::vector<Tensor> inputs;
  for (const DrawnInput& input : op.inputs)
    inputs.push_back(input.value.valid() ? input.value.cast(DType::f64) : Tensor());
  const std::vector<PlainOutput> expected = op.plain(inputs);
  REQUIRE(expected.size() == results.size());
  for (size_t o = 0; o < results.size(); ++o)
    check_output(op, results[o], expected[o], static_cast<int>(o));
}

// Returns whether the call ran.
bool check_call(const DrawnOp& op, std::map<std::string, int>& messages) {
  const auto made = make_graph(op);
  const auto whole = made.ok() ? interpret(made->graph, made->feeds, made->graph.outputs())
                               : Result<std::vector<Tensor>>(made.status());
  if (!whole.ok()) {
    INFO(whole.status());
    CHECK(op.wrong);
    check_refusal(op, whole.status(), messages);
    return false;
  }
  CHECK(!op.wrong);
  check_plain(op, *whole);
  InterpretOptions rows;
  rows.tile_rows = 1;
  rows.reverse_tiles = true;
  check_same(must(interpret(made->graph, made->feeds, made->graph.outputs(), {}, rows)), *whole);
  check_halves(op, *whole);
  const std::vector<Tensor> compiled = run_compiled(*made, 1);
  if (op.same_bits) {
    check_same(compiled, *whole);
  } else {
    check_plain(op, compiled);
  }
  check_same(run_compiled(*made, 4), compiled);
  return true;
}

}  // namespace

TEST_CASE("calls of drawn ops give the right result or say what is wrong") {
  const uint64_t first = environment_number("LEAT_DRAWN_FIRST", 1),
                 count = environment_number("LEAT_DRAWN_CALLS", 3000);
  const auto& families = drawn_families();
  for (size_t f = 0; f < families.size(); ++f) {
    DYNAMIC_SECTION(f << " " << families[f].op) {  // a failure hides none of another op
      std::map<std::string, int> messages;
      uint64_t ran = 0, drawn = 0;
      for (uint64_t seed = first; seed < first + count; ++seed) {
        if (seed % families.size() != f) continue;
        const DrawnOp op = draw_op(families[f], seed, false);
        INFO("LEAT_DRAWN_FIRST=" << seed << " LEAT_DRAWN_CALLS=1: " << text_of(op));
        ran += check_call(op, messages);
        ++drawn;
      }
      CHECK(ran >= drawn / 2);
      std::string list;
      for (const auto& [message, times] : messages) list += cat("\n  ", times, " x ", message);
      if (count > 5000) WARN(cat(drawn, " calls, ", ran, " run, the others refused:", list));
    }
  }
}

}  // namespace leat
