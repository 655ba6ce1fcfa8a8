#include "scheduler/recipes/expression.h"


#include "ops/graph/op.h"
#include "tests/catch.h"
#include "tests/must.h"
#include "tests/scheduler/scheduler_testing.h"

namespace leat {
namespace {

std::vector<std::string> ops_of(const Graph& graph) {
  std::vector<std::string> names;
  for (NodeId id = 0; id < graph.nodes(); ++id) names.push_back(graph.node(id).op->full_name());
  return names;
}

TEST_CASE("a formula of numbers is a number, and one of its argument is computed for each") {
  CHECK((Expression(2) * 3 + 1).part()->number == 7);
  CHECK(where(less(1, 2), 5, 6).part()->number == 5);
  const Expression t = argument();
  const Expression formula = where(at_least(t, 4), pow(0.5, floor(t / 2)), -t);
  CHECK(value_of(formula, 3) == -3);
  CHECK(value_of(formula, 4) == 0.25);
  CHECK(value_of(sqrt(max(t, 1)) + min(abs(t), 2) * sign(t), -9) == -1);
  CHECK(value_of(cos(t), 0) == 1);
  CHECK(value_of(lerp(2, t, 0.25), 6) == 3);
  CHECK(value_of(square(t - 1), 4) == 9);
}

TEST_CASE("a formula becomes nodes from left to right, and what it has twice is added once") {
  Graph graph(scheduler_catalogue());
  GraphBuilder g(graph);
  const Expression x = graph_value(g, g.input("x", DType::f32, {Dim::of(3)}));
  const Expression twice = x + x;
  Emitter emitter(g);
  const ValueId value = emitter.emit(twice * 2 - sqrt(twice));
  must(g.status());
  CHECK(ops_of(graph) == std::vector<std::string>{"Add", "Constant", "Mul", "Sqrt", "Sub"});
  CHECK(graph.value(value).type.dtype == DType::f32);
  const NodeId before = graph.nodes();
  CHECK(emitter.emit(twice) != kNone);
  CHECK(graph.nodes() == before);
}

TEST_CASE("a number in a formula has the type of the values beside it") {
  Graph graph(scheduler_catalogue());
  GraphBuilder g(graph);
  const Expression x = graph_value(g, g.input("x", DType::f32, {Dim::of(3)}));
  const Expression t = graph_value(g, g.input("t", DType::f64, {}));
  Emitter emitter(g);
  // The choice is between numbers, so x decides; the condition is about t.
  const ValueId chosen = emitter.emit(x * where(less(t, 3), 1, 0.5));
  const ValueId total = emitter.emit(sum(g, t));  // of a scalar
  const ValueId rounded = emitter.emit(x + cast(t / 7, DType::f32));
  must(g.status());
  CHECK(graph.value(chosen).type.dtype == DType::f32);
  CHECK(graph.value(rounded).type.dtype == DType::f32);
  CHECK(graph.value(total).type.shape.rank() == 0);
}

}  // namespace
}  // namespace leat
