#include "scheduler/runtime/tile_values.h"

#include "ops/graph/interpret.h"
#include "tests/scheduler/scheduler_testing.h"

namespace leat {
namespace {

// a = Neg(x), b = Tanh(a), c = Exp(b), y = a + c, sum = ReduceSum(b): rows of 512 floats.
struct Network {
  Graph graph{scheduler_catalogue()};
  ValueId x = kNone, a = kNone, b = kNone, c = kNone, y = kNone;

  Network() {
    GraphBuilder g(graph);
    x = g.named(g.input("x", DType::f32, Shape{64, 512}), "x");
    a = g.named(g.op("Neg", {x}), "a");
    b = g.named(g.op("Tanh", {a}), "b");
    c = g.named(g.op("Exp", {b}), "c");
    y = g.named(g.op("Add", {a, c}), "y");
    must(g.status());
  }
  Plan plan(const std::vector<ValueId>& fetches) const {
    CompileRequest request;
    request.borders = {{x}, fetches, {}};
    request.devices = cpus(1);
    return must(compile(graph, request));
  }
};

// The names of all values that tiles keep to themselves, and of the values' aliases.
std::vector<std::string> names(const Partition& p, const TileValues& values) {
  std::vector<std::string> out;
  for (const PlanValue& value : p.values) {
    const auto at = static_cast<uint32_t>(&value - p.values.data());
    const uint32_t root = value.alias == kNone ? at : value.alias;
    for (const TileValue& kept : values.values) {
      if (kept.value == root) out.push_back(value.name);
    }
  }
  return out;
}

TileValues whole_chain(const Partition& p) {
  uint32_t last = 0;
  while (last < p.instructions.size() && p.instructions[last].chain == p.instructions[0].chain)
    ++last;
  REQUIRE(p.instructions[0].chain == 0);
  REQUIRE(last > 1);
  return find_tile_values(p, ValueUses(p), 0, last);
}

}  // namespace

TEST_CASE("a tile keeps to itself what only its chain touches, and nothing fed or fetched") {
  const Network net;
  const Plan sum = net.plan({net.y}), both = net.plan({net.b, net.y});
  const Partition& p = sum.partitions[0];
  const TileValues kept = whole_chain(p);
  // y is computed in place of a or of c, and fetched.
  const auto of_sum = names(p, kept);
  CHECK(std::count(of_sum.begin(), of_sum.end(), "b") == 1);
  CHECK(std::count(of_sum.begin(), of_sum.end(), "x") == 0);
  CHECK(std::count(of_sum.begin(), of_sum.end(), "y") == 0);
  const auto of_both = names(both.partitions[0], whole_chain(both.partitions[0]));
  CHECK(std::count(of_both.begin(), of_both.end(), "b") == 0);
  for (const TileValue& value : kept.values) {
    const auto rows = static_cast<uint64_t>(p.instructions[0].tile_rows);
    CHECK(value.tile_bytes == rows * 512 * sizeof(float));
    CHECK(value.offset + value.tile_bytes <= kept.bytes);
  }
}

TEST_CASE("values of a tile that live at the same time never share bytes") {
  Graph graph(scheduler_catalogue());
  GraphBuilder g(graph);
  const ValueId x = g.input("x", DType::f32, Shape{37, 96});
  std::vector<ValueId> live{x};
  uint32_t random = 3;
  for (int i = 0; i < 60; ++i) {
    random = random * 1664525 + 1013904223;
    const ValueId a = live[(random >> 8) % live.size()], b = live[(random >> 20) % live.size()];
    live.push_back(g.op(i % 3 == 0 ? "Add" : i % 3 == 1 ? "Sub" : "Max", {a, g.op("Tanh", {b})}));
  }
  must(g.status());
  CompileRequest request;
  request.borders = {{x}, {live.back()}, {}};
  request.devices = cpus(1);
  Tensor input(DType::f32, Shape{37, 96});
  for (int i = 0; i < input.elements(); ++i) input.set(i, (i % 601) * 0.003 - 0.9);
  const auto expected = must(interpret(graph, {{x, input}}, request.borders.fetches));
  const Plan plan = must(compile(graph, request));
  REQUIRE(whole_chain(plan.partitions[0]).values.size() > 4);
  for (int threads : {1, 3}) {
    PlanRunner runner(plan, threads);
    must(runner.feed(0, input));
    must(runner.step_to(2));
    CHECK(runner.fetched(0, 1).identical(expected[0]));
  }
}

TEST_CASE("a value that a phase after the rows reads again stays in the arena") {
  Graph graph(scheduler_catalogue());
  GraphBuilder g(graph);
  const Shape shape{64, 128}, line{64, 1};
  const ValueId dy = g.input("dy", DType::f32, shape), x = g.input("x", DType::f32, shape),
                scale = g.input("scale", DType::f32, Shape{128}),
                mean = g.input("mean", DType::f32, line),
                inverse = g.input("inv", DType::f32, line);
  const ValueId before = g.named(g.op("Neg", {dy}), "before");
  const auto made = g.ops("leat.LayerNormalizationGrad", {before, x, scale, mean, inverse},
                          {{"axis", int64_t{1}}}, 3);
  g.named(made[0], "dx");
  const ValueId after = g.named(g.op("Exp", {made[0]}), "after");
  must(g.status());
  CompileRequest request;
  request.borders = {{dy, x, scale, mean, inverse}, {after, made[1]}, {}};
  request.devices = cpus(1);
  const Plan plan = must(compile(graph, request));
  const auto kept = names(plan.partitions[0], whole_chain(plan.partitions[0]));
  CHECK(std::count(kept.begin(), kept.end(), "before") == 0);
}

}  // namespace leat
