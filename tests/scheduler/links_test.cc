// Tests plans over links between their partitions, as on several machines. Also runs under
// ThreadSanitizer.
#include <string>

#include "tests/scheduler/example_plans.h"
#include "tests/slowness.h"

namespace leat {
namespace {

constexpr int kAllShards = 4;

// Every shard adds to one large and ten small variables a value that depends on all shards.
Plan summing_plan(int workers) {
  Graph graph(scheduler_catalogue());
  GraphBuilder g(graph);
  const ValueId rows = g.op("test.Rows", {}, {{"rows", int64_t{kAllShards}}});
  const ValueId mine = g.op("ReduceSum", {rows}, {{"keepdims", int64_t{0}}});
  CompileRequest request;
  for (int i = 0; i <= 10; ++i) {
    std::vector<int64_t> shape = {10 + i};
    if (i == 0) shape = {300, 200};
    const ValueId v =
        g.op("leat.Variable", {}, {{"name", "v" + std::to_string(i)}, {"shape", shape}});
    const ValueId part = g.op("Mul", {g.op("leat.Read", {v}), mine});
    const ValueId all = g.op("leat.AllReduce", {part}, {{"op", std::string("mean")}});
    const ValueId scaled = g.op("Mul", {all, g.scalar(DType::f32, 0.01)});
    request.borders.targets.push_back(g.effect("leat.AssignAdd", {v, scaled}));
  }
  must(g.status());
  request.devices = cpus(workers);
  request.strategy = "mirrored";
  request.shards = kAllShards;
  return must(compile(graph, request));
}

}  // namespace

TEST_CASE("training over each transport gives the bits of channels within the process",
          "[cluster]") {
  const TemporaryDirectory directory;
  const std::string data = write_data(directory);
  // A slow build runs only the cases with the most complex traffic.
  constexpr bool kSlow = kSlowness > 1;
  constexpr uint64_t kSteps = kSlow ? 6 : 12;
  const std::vector<int> worker_counts = kSlow ? std::vector{3} : std::vector{2, 3};
  const std::vector<int> thread_counts = kSlow ? std::vector{3} : std::vector{1, 3};
  for (int workers : worker_counts) {
    const std::vector<Plan> plans = {small_plan(kAllShards, workers, data), summing_plan(workers)};
    for (const Plan& plan : plans) {
      PlanRunner local(plan, 1);
      const std::vector<Bytes> expected = results(local, kSteps);
      PlanRunner places(plan, 2, InSharedPlaces());
      const bool same_in_places = results(places, kSteps) == expected;
      CHECK(same_in_places);
      for (const Transport& transport : transports()) {
        for (int threads : thread_counts) {
          INFO(plan.name << " on " << workers << " workers over " << transport.name << ", "
                         << threads << " threads");
          PlanRunner runner(plan, threads, transport);
          const bool same = results(runner, kSteps) == expected;
          CHECK(same);
        }
      }
    }
  }
}

TEST_CASE("a value that ties workers together is one frame each way a step", "[cluster]") {
  // A parameter server on task 0 gives ten small values to each worker, and gets ten back.
  constexpr int kWorkers = 3, kValues = 10;
  Graph graph(scheduler_catalogue());
  GraphBuilder g(graph);
  CompileRequest request;
  const auto on = [&](int task, ValueId value) {
    graph.node(graph.value(value).producer).device = "task:" + std::to_string(task);
    return value;
  };
  for (int i = 0; i < kValues; ++i) {
    const ValueId v =
        on(0, g.op("leat.Variable", {},
                   {{"name", "v" + std::to_string(i)}, {"shape", std::vector<int64_t>{4}}}));
    const ValueId read = on(0, g.op("leat.Read", {v}));
    ValueId sum = kNone;
    for (int w = 1; w <= kWorkers; ++w) {
      const ValueId one = g.constant(Tensor::of<float>({4}, std::vector<float>(4, 1)));
      const ValueId answer = on(w, g.op("Add", {read, one}));
      sum = sum == kNone ? answer : on(0, g.op("Add", {sum, answer}));
    }
    request.borders.targets.push_back(g.effect("leat.AssignAdd", {v, sum}));
    graph.node(request.borders.targets.back()).device = "task:0";
  }
  must(g.status());
  request.devices = cpus(kWorkers + 1);
  const Plan plan = must(compile(graph, request));
  REQUIRE(plan.edges.size() == 2 * kWorkers * kValues);
  for (const Transport& transport : transports()) {
    if (transport.reach != "network") continue;  // the rings of shared memory depend on timing
    for (int threads : {1, 2}) {
      INFO(transport.name << ", " << threads << " threads");
      PlanRunner runner(plan, threads, transport);
      constexpr uint64_t kSteps = 50;
      must(runner.step_to(kSteps));
      // A credit goes by itself where a thread that sleeps lets a window close.
      constexpr uint64_t kFrames = 2 * kWorkers * kSteps;
      CHECK(runner.frames_sent() >= kFrames);
      CHECK(runner.frames_sent() <= kFrames + kFrames / 10);
    }
  }
}

TEST_CASE("values that are sent in place may be written again by the next step", "[cluster]") {
  // A value of several pieces, which changes every step, over a slow link.
  Graph graph(scheduler_catalogue());
  GraphBuilder g(graph);
  constexpr int64_t kElements = kSlowness > 1 ? 1 << 18 : 1 << 20;
  const ValueId v = g.op("leat.Variable", {},
                         {{"name", std::string("v")}, {"shape", std::vector<int64_t>{kElements}}});
  const ValueId read = g.op("leat.Read", {v});
  const ValueId sent = g.op("Mul", {read, g.scalar(DType::f32, 2)});
  const ValueId ones = g.constant(
      Tensor::of<float>({kElements}, std::vector<float>(static_cast<size_t>(kElements), 1)));
  const NodeId add = g.effect("leat.AssignAdd", {v, ones});
  const ValueId last = g.op("ReduceMax", {sent}, {{"keepdims", int64_t{0}}});
  const ValueId first = g.op("ReduceMin", {sent}, {{"keepdims", int64_t{0}}});
  for (const ValueId value : {v, read, sent})
    graph.node(graph.value(value).producer).device = "task:0";
  graph.node(add).device = "task:0";
  for (const ValueId value : {first, last})
    graph.node(graph.value(value).producer).device = "task:1";
  must(g.status());
  CompileRequest request;
  request.borders = {{}, {first, last}, {add}};
  request.devices = cpus(2);
  const Plan plan = must(compile(graph, request));
  for (const Transport& transport : transports()) {
    INFO(transport.name);
    PlanRunner runner(plan, 2, transport);
    constexpr uint64_t kSteps = kFetchDepth;
    must(runner.step_to(kSteps));
    for (uint64_t step = 0; step < kSteps; ++step) {
      CHECK(runner.fetched(0, step).at(0) == 2.0 * static_cast<double>(step));
      CHECK(runner.fetched(1, step).at(0) == 2.0 * static_cast<double>(step));
    }
  }
}

}  // namespace leat
