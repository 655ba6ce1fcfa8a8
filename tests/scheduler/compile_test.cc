#include "ops/catalogue.h"
#include "ops/graph/interpret.h"
#include "ops/text/parse.h"
#include "scheduler/compile/passes.h"
#include "scheduler/graph/device_name.h"
#include "tests/scheduler/scheduler_testing.h"

namespace leat {
namespace {

Graph affine() {
  Graph graph(scheduler_catalogue());
  GraphBuilder g(graph);
  const ValueId x = g.input("x", DType::f32, Shape{4});
  const ValueId w = g.named(
      g.op("leat.Variable", {}, {{"name", std::string("w")}, {"shape", std::vector<int64_t>{4}}}),
      "w");
  const ValueId read = g.named(g.op("leat.Read", {w}), "w_now");
  const ValueId y = g.named(g.op("Mul", {x, read}), "y");
  const ValueId unused = g.named(g.op("Exp", {y}), "unused");
  (void)unused;
  g.output(g.named(g.op("ReduceSum", {y}, {{"keepdims", int64_t{0}}}), "sum"));
  must(g.status());
  return graph;
}

CompileRequest request_for(const Graph& graph, std::vector<std::string> feeds,
                           std::vector<std::string> fetches) {
  CompileRequest request;
  for (const std::string& name : feeds)
    request.borders.feeds.push_back(graph.find_value(name).value());
  for (const std::string& name : fetches)
    request.borders.fetches.push_back(graph.find_value(name).value());
  request.devices = cpus(1);
  return request;
}

size_t count_op(const Plan& plan, std::string_view op) {
  size_t n = 0;
  for (const Partition& p : plan.partitions) {
    for (const PlanInstruction& i : p.instructions) n += i.op && i.op->full_name() == op;
  }
  return n;
}

}  // namespace

TEST_CASE("only what the fetches need is planned") {
  const Graph graph = affine();
  const Plan plan = must(compile(graph, request_for(graph, {"x"}, {"sum"})));
  CHECK(count_op(plan, "Exp") == 0);
  CHECK(count_op(plan, "Mul") == 1);
}

TEST_CASE("a fed inner value cuts off what would compute it") {
  const Graph graph = affine();
  const Plan plan = must(compile(graph, request_for(graph, {"y"}, {"sum"})));
  CHECK(count_op(plan, "Mul") == 0);
  CHECK(plan.partitions[0].resources.empty());
}

TEST_CASE("feeds and fetches that make no sense are refused by name") {
  const Graph graph = affine();
  const auto message = [&](std::vector<std::string> feeds, std::vector<std::string> fetches) {
    const auto plan = compile(graph, request_for(graph, std::move(feeds), std::move(fetches)));
    REQUIRE(!plan.ok());
    return plan.status().message();
  };
  CHECK(message({"x", "x"}, {"sum"}).find("'x': fed twice") != std::string::npos);
  CHECK(message({"x", "y"}, {"y"}).find("expected to be fed or fetched, received both") !=
        std::string::npos);
  CHECK(message({}, {"sum"}).find("needs the input 'x', which is not fed") != std::string::npos);
  CHECK(message({"x"}, {}).find("expected at least one fetch or target") != std::string::npos);
}

TEST_CASE("equal requests give equal plans") {
  const Graph graph = affine();
  const auto request = request_for(graph, {"x"}, {"sum"});
  CHECK(must(compile(graph, request)).text() == must(compile(graph, request)).text());
}

TEST_CASE("a read is the variable's own memory, and equal nodes are computed once") {
  Graph graph = affine();
  GraphBuilder g(graph);
  const ValueId again =
      g.named(g.op("Mul", {*graph.find_value("x"), *graph.find_value("w_now")}), "again");
  g.output(g.named(g.op("Add", {again, *graph.find_value("y")}), "twice"));
  must(g.status());
  const Plan plan = must(compile(graph, request_for(graph, {"x"}, {"twice"})));
  CHECK(count_op(plan, "Mul") == 1);
  CHECK(count_op(plan, "leat.Read") == 0);
}

TEST_CASE("a step of numbers that are not finite writes nothing if it is to be skipped") {
  Graph graph(scheduler_catalogue());
  GraphBuilder g(graph);
  const auto variable = [&](const char* name) {
    return g.op("leat.Variable", {},
                {{"name", std::string(name)}, {"shape", std::vector<int64_t>{2}}});
  };
  const ValueId a = variable("a"), b = variable("b"), read = g.op("leat.Read", {a});
  const Tensor ones = Tensor::of<float>({2}, {1, 1});
  // b = 1 / (3 - a), which is infinite when a is 3.
  const ValueId rest = g.op("Sub", {g.constant(Tensor::of<float>({2}, {3, 3})), read});
  const NodeId count = g.effect("leat.AssignAdd", {a, g.constant(ones)});
  const NodeId divide = g.effect("leat.Assign", {b, g.op("Div", {g.constant(ones), rest})});
  must(g.status());
  CompileRequest request;
  request.borders.targets = {count, divide};
  request.devices = cpus(1);
  request.skips_not_finite = true;
  PlanRunner runner(must(compile(graph, request)), 2);
  must(runner.step_to(8));
  CHECK(*static_cast<float*>(runner.resources().find_variable("a")->data()) == 3);
  CHECK(*static_cast<float*>(runner.resources().find_variable("b")->data()) == 1);
}

TEST_CASE("a step that fetches what it has written cannot be skipped") {
  Graph graph(scheduler_catalogue());
  graph.name = "g";
  GraphBuilder g(graph);
  const ValueId w =
      g.op("leat.Variable", {}, {{"name", std::string("w")}, {"shape", std::vector<int64_t>{1}}});
  const NodeId add = g.effect("leat.AssignAdd", {w, g.constant(Tensor::of<float>({1}, {5}))});
  const ValueId after = g.op("leat.Read", {w});
  graph.node(graph.value(after).producer).after = {add};
  must(g.status());
  CompileRequest request;
  request.borders.fetches = {after};
  request.devices = cpus(1);
  must(compile(graph, request));
  request.skips_not_finite = true;
  const auto refused = compile(graph, request);
  REQUIRE(!refused.ok());
  CHECK(refused.status().message() ==
        "'g': expected all that a step fetches and writes to be there before its first write, so "
        "that it can be skipped; some of it comes after a write");
}

TEST_CASE("a step with a write that takes no guard cannot be skipped") {
  Catalogue catalogue = standard_catalogue();
  catalogue.add(Op("test.Scribble").input("r", "resource").writes(0).infer([](InferContext&) {
    return Status();
  }));
  Graph graph(catalogue);
  GraphBuilder g(graph);
  const ValueId w =
      g.op("leat.Variable", {}, {{"name", std::string("w")}, {"shape", std::vector<int64_t>{1}}});
  CompileRequest request;
  request.borders.targets = {g.effect("test.Scribble", {w})};
  must(g.status());
  request.devices = cpus(1);
  request.skips_not_finite = true;
  const auto refused = compile(graph, request);
  REQUIRE(!refused.ok());
  CHECK_THAT(refused.status().message(),
             Catch::StartsWith("test.Scribble #1: a step cannot leave out what it does"));
}

TEST_CASE("two writes without an order are refused, with one they follow it") {
  Graph graph(scheduler_catalogue());
  GraphBuilder g(graph);
  const ValueId w =
      g.op("leat.Variable", {}, {{"name", std::string("w")}, {"shape", std::vector<int64_t>{1}}});
  const ValueId one = g.named(g.constant(Tensor::of<float>({1}, {1})), "one"),
                two = g.constant(Tensor::of<float>({1}, {2}));
  const NodeId a = g.effect("leat.Assign", {w, one}), b = g.effect("leat.Assign", {w, two});
  must(g.status());
  CompileRequest request;
  request.borders.targets = {a, b};
  request.devices = cpus(1);
  const auto refused = compile(graph, request);
  REQUIRE(!refused.ok());
  CHECK(refused.status().message() ==
        "leat.Assign #3 of an output of Constant 'one' and leat.Assign #4 of an output of "
        "Constant #2: both write 'w'; expected a control edge that says which comes first; "
        "while planning for job:worker/task:0/cpu:0");
  graph.node(a).after = {b};
  PlanRunner runner(must(compile(graph, request)), 2);
  must(runner.step_to(1));
  CHECK(*static_cast<float*>(runner.resources().find_variable("w")->data()) == 1);
}

TEST_CASE(
    "a read that a write must precede sees the new value, one that must follow sees the old") {
  Graph graph(scheduler_catalogue());
  GraphBuilder g(graph);
  const ValueId w =
      g.op("leat.Variable", {}, {{"name", std::string("w")}, {"shape", std::vector<int64_t>{1}}});
  const ValueId old_value = g.op("leat.Read", {w});
  const NodeId add = g.effect("leat.AssignAdd", {w, g.constant(Tensor::of<float>({1}, {5}))});
  const ValueId new_value = g.op("leat.Read", {w});
  graph.node(graph.value(new_value).producer).after = {add};
  // This needs both values, so the old one must be copied.
  const ValueId difference = g.op("Sub", {new_value, old_value});
  must(g.status());
  CompileRequest request;
  request.borders = {{}, {difference, new_value}, {}};
  request.devices = cpus(1);
  PlanRunner runner(must(compile(graph, request)), 2);
  must(runner.step_to(3));
  CHECK(runner.fetched(0, 2).at(0) == 5);
  CHECK(runner.fetched(1, 2).at(0) == 15);
}

TEST_CASE("memory is reused: a long chain needs little more than two of its values") {
  Graph graph(scheduler_catalogue());
  GraphBuilder g(graph);
  const ValueId x = g.input("x", DType::f32, Shape{100000});
  ValueId y = x;
  for (int i = 0; i < 20; ++i) y = g.op(i % 2 ? "Exp" : "Neg", {y});
  must(g.status());
  CompileRequest request;
  request.borders = {{x}, {y}, {}};
  request.devices = cpus(1);
  const Plan plan = must(compile(graph, request));
  CHECK(plan.partitions[0].arena_bytes <= 3 * 400064);
}

TEST_CASE("values that live at the same time never share bytes") {
  // On a graph with many live values, the executor's results equal those of one op after the other.
  Graph graph(scheduler_catalogue());
  GraphBuilder g(graph);
  const ValueId x = g.input("x", DType::f32, Shape{1000});
  std::vector<ValueId> live{x};
  uint32_t random = 1;
  for (int i = 0; i < 120; ++i) {
    random = random * 1664525 + 1013904223;
    const ValueId a = live[(random >> 8) % live.size()], b = live[(random >> 20) % live.size()];
    live.push_back(g.op(i % 3 == 0 ? "Add" : i % 3 == 1 ? "Sub" : "Max", {a, g.op("Tanh", {b})}));
  }
  must(g.status());
  CompileRequest request;
  request.borders.feeds = {x};
  for (size_t i = 5; i < live.size(); i += 17) request.borders.fetches.push_back(live[i]);
  request.devices = cpus(1);
  Tensor input(DType::f32, Shape{1000});
  for (int i = 0; i < 1000; ++i) input.set(i, i * 0.001 - 0.3);
  const auto expected = must(interpret(graph, {{x, input}}, request.borders.fetches));
  for (int threads : {1, 4}) {
    PlanRunner runner(must(compile(graph, request)), threads);
    for (uint64_t step = 0; step < 3; ++step) {
      must(runner.feed(0, input));
      must(runner.step_to(step + 1));
      for (size_t f = 0; f < expected.size(); ++f)
        REQUIRE(runner.fetched(static_cast<uint32_t>(f), step).identical(expected[f]));
    }
  }
}

TEST_CASE("constraints place nodes, and a conflict names the chain of reasons") {
  CHECK(matches_device("task:1", "job:worker/task:1/cpu:0"));
  CHECK(matches_device("job:worker/task:*/cpu", "job:worker/task:3/cpu:0"));
  CHECK(!matches_device("task:1", "job:worker/task:11/cpu:0"));
  CHECK(!matches_device("gpu", "job:worker/task:1/cpu:0"));
  Graph graph(scheduler_catalogue());
  GraphBuilder g(graph);
  const ValueId w = g.named(
      g.op("leat.Variable", {}, {{"name", std::string("w")}, {"shape", std::vector<int64_t>{1}}}),
      "w");
  const NodeId add = g.effect("leat.AssignAdd", {w, g.constant(Tensor::of<float>({1}, {1}))});
  graph.node(graph.value(w).producer).device = "task:0";
  graph.node(add).device = "task:1";
  CompileRequest request;
  request.borders.targets = {add};
  request.devices = cpus(2);
  const auto refused = compile(graph, request);
  REQUIRE(!refused.ok());
  CHECK(refused.status().message().find("must share a device") != std::string::npos);
  CHECK(refused.status().message().find("uses the resource of leat.Variable 'w'") !=
        std::string::npos);
  graph.node(add).device = "task:7";
  const auto nowhere = compile(graph, request);
  REQUIRE(!nowhere.ok());
  CHECK(nowhere.status().message().find("expected a device that satisfies 'task:7'") !=
        std::string::npos);
}

TEST_CASE("a plan that does not fit the device is refused before anything runs") {
  const Graph graph = affine();
  auto request = request_for(graph, {"x"}, {"sum"});
  request.devices[0].memory_bytes = 16;
  const auto refused = compile(graph, request);
  REQUIRE(!refused.ok());
  CHECK(refused.status().code() == Code::resource_exhausted);
}

TEST_CASE("a gradient is fetched as it is") {
  const Graph graph = must(parse_graph(R"(<ir_version: 10, opset_import: ["" : 20, "leat" : 1]>
g (float[3] x) => (dx, loss) {
  s = Mul (x, x)
  loss = ReduceSum <keepdims = 0> (s)
  dx = leat.Gradients (loss, x)
}
)",
                                       scheduler_catalogue(), "g"));
  PlanRunner runner(must(compile(graph, request_for(graph, {"x"}, {"dx", "loss"}))), 1);
  must(runner.feed(0, Tensor::of<float>({3}, {1, 2, 3})));
  must(runner.step_to(1));
  CHECK(runner.fetched(0, 0).identical(Tensor::of<float>({3}, {2, 4, 6})));
  CHECK(runner.fetched(1, 0).at(0) == 14);
}

TEST_CASE("an edge between devices becomes one send and one receive, and a control edge a token") {
  Graph graph(scheduler_catalogue());
  GraphBuilder g(graph);
  const ValueId w =
      g.op("leat.Variable", {}, {{"name", std::string("w")}, {"shape", std::vector<int64_t>{1}}});
  graph.node(graph.value(w).producer).device = "task:0";
  const NodeId add = g.effect("leat.AssignAdd", {w, g.constant(Tensor::of<float>({1}, {1}))});
  const ValueId v =
      g.op("leat.Variable", {}, {{"name", std::string("v")}, {"shape", std::vector<int64_t>{1}}});
  graph.node(graph.value(v).producer).device = "task:1";
  const NodeId later = g.effect("leat.AssignAdd", {v, g.constant(Tensor::of<float>({1}, {2}))});
  graph.node(later).after = {add};
  must(g.status());
  CompileRequest request;
  request.borders.targets = {later};
  request.devices = cpus(2);
  Plan plan = must(compile(graph, request));
  REQUIRE(plan.edges.size() == 1);
  CHECK(plan.edges[0].bytes == 0);
  PlanRunner runner(std::move(plan), 1);
  must(runner.step_to(10));
  CHECK(*static_cast<float*>(runner.resources(1).find_variable("v")->data()) == 20);
}

TEST_CASE("the verifier refuses a plan whose edge is never received") {
  Graph graph(scheduler_catalogue());
  GraphBuilder g(graph);
  const ValueId x = g.input("x", DType::f32, Shape{3});
  const ValueId y = g.op("Neg", {x});
  graph.node(graph.value(y).producer).device = "task:1";
  const ValueId z = g.op("Exp", {y});
  graph.node(graph.value(z).producer).device = "task:0";
  CompileRequest request;
  request.borders = {{x}, {z}, {}};
  request.devices = cpus(2);
  Plan plan = must(compile(graph, request));
  must(verify(plan));
  auto& instructions = plan.partitions[0].instructions;
  std::erase_if(instructions,
                [](const PlanInstruction& i) { return i.kind == PlanInstruction::Kind::receive; });
  const Status status = verify(plan);
  CHECK(status.code() == Code::internal);
  CHECK(status.message().find("reads value 0 when it is not there") != std::string::npos);
}

}  // namespace leat
