#include <cstdlib>

#include "ops/catalogue.h"
#include "tests/scheduler/scheduler_testing.h"

namespace leat {
namespace {

// y = x * 2 + 1 in float[4], fed and fetched.
Plan affine_plan() {
  Graph graph(scheduler_catalogue());
  GraphBuilder g(graph);
  const ValueId x = g.input("x", DType::f32, Shape{4});
  const ValueId y =
      g.op("Add", {g.op("Mul", {x, g.scalar(DType::f32, 2)}), g.scalar(DType::f32, 1)});
  must(g.status());
  CompileRequest request;
  request.borders = {{x}, {y}, {}};
  request.devices = cpus(1);
  return must(compile(graph, request));
}

// counter += 1 in each step. The fetch is its old value.
Plan counter_plan() {
  Graph graph(scheduler_catalogue());
  GraphBuilder g(graph);
  const ValueId counter =
      g.op("leat.Variable", {},
           {{"name", std::string("counter")}, {"shape", std::vector<int64_t>{1000}}});
  const ValueId before = g.op("leat.Read", {counter});
  const NodeId add =
      g.effect("leat.AssignAdd",
               {counter, g.constant(Tensor::of<float>({1000}, std::vector<float>(1000, 1)))});
  must(g.status());
  CompileRequest request;
  request.borders = {{}, {before}, {add}};
  request.devices = cpus(1);
  return must(compile(graph, request));
}

// A step of 100 slow ops, each of which depends on the one before.
Plan slow_plan() {
  Graph graph(scheduler_catalogue());
  GraphBuilder g(graph);
  ValueId x = g.constant(Tensor::of<float>({4}, {1, 2, 3, 4}));
  for (int i = 0; i < 100; ++i) x = g.op("test.Slow", {x});
  must(g.status());
  CompileRequest request;
  request.borders = {{}, {x}, {}};
  request.devices = cpus(1);
  return must(compile(graph, request));
}

}  // namespace

TEST_CASE("a run that has steps without end gives way to the others of its device", "[cluster]") {
  cpu::CpuDevice device(0, 2);
  JobResources resources(device);
  const Plan plan = slow_plan();
  const auto program = [&] { return must(Program::create(plan, 0, device, resources, {})); };
  const auto long_program = program(), short_program = program();
  Run long_run(*long_program, device.pool(), {}), short_run(*short_program, device.pool(), {});
  Executor executor(device.pool(), "driver");
  executor.add(long_run);
  executor.add(short_run);
  constexpr uint64_t kForever = uint64_t{1} << 40;
  long_run.extend(kForever);
  executor.wake(long_run);
  must(long_run.finished().wait(2, soon()));
  for (uint64_t step = 1; step <= 3; ++step) {
    short_run.extend(step);
    executor.wake(short_run);
    must(short_run.finished().wait(step, soon()));
  }
  const uint64_t then = long_run.turns();
  must(long_run.finished().wait(then + 2, soon()));
  long_run.abort(cancelled("enough"));
  executor.remove(long_run);
  executor.remove(short_run);
}

TEST_CASE("a run that is held ends the steps that it has begun, and no other", "[cluster]") {
  cpu::CpuDevice device(0, 2);
  JobResources resources(device);
  const Plan plan = slow_plan();
  for (const uint64_t first : {0, 7}) {
    const auto program = must(Program::create(plan, 0, device, resources, {}));
    RunOptions options;
    options.first_step = first;
    Run run(*program, device.pool(), options);
    Executor executor(device.pool(), "driver");
    executor.add(run);
    CHECK(run.hold() == first);  // it has begun no step
    run.extend(first + 100);
    CHECK(run.limit() == first);
    run.fence(first + 1000);
    executor.wake(run);
    must(run.finished().wait(2, soon()));
    const uint64_t limit = run.hold();
    CHECK(limit <= first + run.turns() + kFetchDepth / 2);
    run.extend(first + 2000);
    executor.wake(run);
    must(run.finished().wait(limit - first, soon()));
    CHECK(run.limit() == limit);
    run.fence(limit + 2);
    executor.wake(run);
    must(run.finished().wait(limit + 2 - first, soon()));
    CHECK(run.turns() == limit + 2 - first);
    executor.remove(run);
  }
}

TEST_CASE("however often a run is held while it steps, it stands where it says", "[cluster]") {
  for (int threads : {1, 2}) {
    PlanRunner runner(counter_plan(), threads);
    for (uint64_t at = 0; at < 300;) {
      runner.extend(at + 8);
      runner.run().fence(at + 8);
      runner.executor().wake(runner.run());
      const uint64_t limit = runner.run().hold();
      REQUIRE(limit >= at);
      must(runner.run().finished().wait(limit, soon()));
      REQUIRE(runner.run().turns() == limit);
      if (limit > 0) REQUIRE(runner.fetched(0, limit - 1).at(0) == static_cast<double>(limit - 1));
      at = std::max(at + (limit == at), limit);
      runner.run().fence(at);
      runner.executor().wake(runner.run());
      must(runner.run().finished().wait(at, soon()));
    }
  }
}

TEST_CASE("a run does between two steps what it is asked to, before it tells of the first") {
  for (int threads : {1, 2}) {
    PlanRunner runner(counter_plan(), threads);
    Run& run = runner.run();
    const auto* counter = static_cast<const float*>(
        must(runner.resources().variable("counter", DType::f32, Shape{1000}, true))->data());
    for (uint64_t at = 0; at < 700; at += 7) {
      const uint64_t step = at + at / 7 % 8;  // from the first to the last allowed one
      uint64_t told = 0;
      float value = -1;
      must(run.between_steps(step, [&] {
        told = run.turns();
        value = counter[999];
      }));
      runner.extend(at + 7);
      must(run.finished().wait(at + 7, soon()));
      REQUIRE(value == static_cast<float>(step));
      REQUIRE((told < step || step == at));
      CHECK(run.between_steps(at + 6, [] {}).code() == Code::failed_precondition);
    }
  }
}

TEST_CASE("a run feeds, computes and fetches") {
  PlanRunner runner(affine_plan(), 1);
  must(runner.feed(0, Tensor::of<float>({4}, {1, 2, 3, 4})));
  must(runner.step_to(1));
  CHECK(runner.fetched(0, 0).identical(Tensor::of<float>({4}, {3, 5, 7, 9})));
  must(runner.feed(0, Tensor::of<float>({4}, {0, -1, 0.5f, 10})));
  must(runner.step_to(2));
  CHECK(runner.fetched(0, 1).identical(Tensor::of<float>({4}, {1, -1, 2, 21})));
}

TEST_CASE("a feed of the wrong type is refused and named") {
  PlanRunner runner(affine_plan(), 1);
  const Status status = runner.feed(0, Tensor::of<float>({3}, {1, 2, 3}));
  CHECK(status.code() == Code::invalid_argument);
  CHECK(status.message().find("expected float[4], received float[3]") != std::string::npos);
}

TEST_CASE(
    "a read sees the variable as the step began, for any number of threads and steps in flight") {
  for (int threads : {1, 2, 3, 4}) {
    PlanRunner runner(counter_plan(), threads);
    for (uint64_t step = 0; step < 200; step += 8) {
      must(runner.step_to(step + 8));
      for (uint64_t s = step; s < step + 8; ++s) {
        const Tensor value = runner.fetched(0, s);
        REQUIRE(value.at(0) == static_cast<double>(s));
        REQUIRE(value.at(999) == static_cast<double>(s));
      }
    }
  }
}

TEST_CASE("a failing kernel ends the run with its name and step") {
  Graph graph(scheduler_catalogue());
  GraphBuilder g(graph);
  const NodeId fail = g.effect("test.Fail", {}, {{"step", int64_t{3}}});
  graph.node(fail).name = "culprit";
  CompileRequest request;
  request.borders = {{}, {}, {fail}};
  request.devices = cpus(1);
  for (int threads : {1, 3}) {
    PlanRunner runner(must(compile(graph, request)), threads);
    must(runner.step_to(3));
    const Status status = runner.step_to(8);
    CHECK(status.code() == Code::invalid_argument);
    CHECK(status.message().find("test.Fail 'culprit': was told to fail") != std::string::npos);
    CHECK(status.message().find("step 3") != std::string::npos);
    CHECK(runner.run().turns() == 3);
  }
}

TEST_CASE("values cross partitions through slots") {
  // Two devices placed by hand: y = (x + 1) on task 1, z = y * y on task 0.
  Graph graph(scheduler_catalogue());
  GraphBuilder g(graph);
  const ValueId x = g.input("x", DType::f32, Shape{3});
  const ValueId y = g.op("Add", {x, g.scalar(DType::f32, 1)});
  graph.node(graph.value(y).producer).device = "task:1";
  const ValueId z = g.op("Mul", {y, y});
  graph.node(graph.value(z).producer).device = "task:0";
  must(g.status());
  CompileRequest request;
  request.borders = {{x}, {z}, {}};
  request.devices = cpus(2);
  Plan plan = must(compile(graph, request));
  CHECK(plan.partitions.size() == 2);
  CHECK(plan.edges.size() == 1);  // y crosses once, though it is read twice
  PlanRunner runner(std::move(plan), 2);
  for (uint64_t step = 0; step < 20; ++step) {
    must(runner.feed(0, Tensor::of<float>({3}, {1, 2, static_cast<float>(step)})));
    must(runner.step_to(step + 1));
    const double last = static_cast<double>(step) + 1;
    CHECK(runner.fetched(0, step).identical(
        Tensor::of<float>({3}, {4, 9, static_cast<float>(last * last)})));
  }
}

TEST_CASE(
    "two runs share a variable, one of them suspended in a Dequeue that the other's Enqueue ends") {
  cpu::CpuDevice device(0, 2);
  JobResources resources(device);
  Executor executor(device.pool(), "driver");
  Graph graph(scheduler_catalogue());
  GraphBuilder g(graph);
  const Attrs queue_attrs{{"name", std::string("q")},
                          {"capacity", int64_t{2}},
                          {"components", std::vector<std::string>{"float[1]"}}};
  const ValueId queue = g.op("leat.Queue", {}, queue_attrs);
  const ValueId variable =
      g.op("leat.Variable", {}, {{"name", std::string("v")}, {"shape", std::vector<int64_t>{1}}});
  const ValueId taken =
      g.op("leat.Dequeue", {queue}, {{"components", std::vector<std::string>{"float[1]"}}});
  const NodeId add = g.effect("leat.AssignAdd", {variable, taken});
  const ValueId x = g.input("x", DType::f32, Shape{1});
  const NodeId put = g.effect("leat.Enqueue", {queue, x});
  const ValueId now = g.op("leat.Read", {variable});
  must(g.status());
  CompileRequest consumer, producer;
  consumer.borders = {{}, {}, {add}};
  producer.borders = {{x}, {now}, {put}};
  consumer.devices = producer.devices = cpus(1);
  const Plan consume = must(compile(graph, consumer)), produce = must(compile(graph, producer));
  auto consuming = must(Program::create(consume, 0, device, resources, {}));
  auto producing = must(Program::create(produce, 0, device, resources, {}));
  Run waits(*consuming, device.pool(), {"consumer", 0, 0}),
      gives(*producing, device.pool(), {"producer", 0, 0});
  executor.add(waits);
  executor.add(gives);
  waits.extend(3);
  executor.wake(waits);
  // A suspended consumer holds no thread, so the producer can step on the same driver.
  for (uint64_t step = 0; step < 3; ++step) {
    CHECK(waits.turns() <= step);
    must(gives.set_feed(0, Tensor::of<float>({1}, {static_cast<float>(step + 1)})));
    gives.extend(step + 1);
    executor.wake(gives);
    must(gives.finished().wait(step + 1, soon()));
    must(waits.finished().wait(step + 1, soon()));
  }
  CHECK(*static_cast<float*>(resources.find_variable("v")->data()) == 1 + 2 + 3);
  executor.remove(waits);
  executor.remove(gives);
}

TEST_CASE("an op of the next step starts before the last op of this one has ended") {
  Timeline early;  // steps whose test.Early has begun
  Catalogue catalogue = standard_catalogue();
  const auto add = [&](const char* name, const std::function<Progress(KernelContext&)>& run) {
    catalogue.add(Op(name)
                      .stateful()
                      .infer([](InferContext&) { return Status(); })
                      .kernel("cpu", [run](const KernelSetup&) -> Result<std::unique_ptr<Kernel>> {
                        return make_kernel(run);
                      }));
  };
  add("test.Early", [&](KernelContext& context) {
    early.signal(context.step->step + 1);
    return Progress::done;
  });
  add("test.Late", [&](KernelContext& context) {
    // The first step ends only after the second has begun.
    const Status status = context.step->step == 0 ? early.wait(2, soon()) : Status();
    if (status.ok()) return Progress::done;
    context.step->fail(context.instruction, status);
    return Progress::failed;
  });
  Graph graph(catalogue);
  GraphBuilder g(graph);
  const NodeId first = g.effect("test.Early", {});
  const ValueId variable =
      g.op("leat.Variable", {}, {{"name", std::string("v")}, {"shape", std::vector<int64_t>{}}});
  const ValueId before = g.op("Neg", {g.op("leat.Read", {variable})});
  const NodeId write = g.effect("leat.AssignAdd", {variable, g.scalar(DType::f32, 1)});
  const NodeId last = g.effect("test.Late", {});
  graph.node(last).after = {write};
  must(g.status());
  CompileRequest request;
  request.borders = {{}, {before}, {first, write, last}};
  request.devices = cpus(1);
  PlanRunner runner(must(compile(graph, request)), 2);
  must(runner.step_to(2));
  // A step reads the values that the step before it wrote.
  CHECK(runner.fetched(0, 0).at(0) == 0);
  CHECK(runner.fetched(0, 1).at(0) == -1);
}

TEST_CASE("aborting a run wakes whoever waits for it") {
  Graph graph(scheduler_catalogue());
  GraphBuilder g(graph);
  const ValueId queue = g.op("leat.Queue", {},
                             {{"name", std::string("q")},
                              {"capacity", int64_t{1}},
                              {"components", std::vector<std::string>{"float[1]"}}});
  const ValueId taken =
      g.op("leat.Dequeue", {queue}, {{"components", std::vector<std::string>{"float[1]"}}});
  must(g.status());
  CompileRequest request;
  request.borders = {{}, {taken}, {}};
  request.devices = cpus(1);
  PlanRunner runner(must(compile(graph, request)), 1);
  runner.extend(1);
  while (runner.executor().waits_for(runner.run()).empty()) std::this_thread::yield();
  CHECK(runner.executor().waits_for(runner.run()).find("is blocked in") != std::string::npos);
  CHECK_FALSE(runner.executor().waits_for_peer(runner.run()));
  runner.run().abort(cancelled("enough"));
  const Status status = runner.run().finished().wait(1, soon());
  CHECK(status.code() == Code::cancelled);
}

}  // namespace leat
