// The gate in front of execution: what the compiler makes passes, and what somebody else might
// make of it does not.
#include "tests/scheduler/example_plans.h"
#include "tests/scheduler/hostile_plans.h"

namespace leat {
namespace {

using Kind = PlanInstruction::Kind;

// Two partitions that exchange a scalar each before either goes on: 0 sends edge 0, 1 sends edge 1.
Plan exchange_plan() {
  Graph graph(scheduler_catalogue());
  GraphBuilder g(graph);
  const ValueId x = g.input("x", DType::f32, Shape{3});
  const ValueId here = g.op("Neg", {x}), there = g.op("Exp", {x});
  const ValueId sum = g.op("Add", {here, there}), product = g.op("Mul", {here, there});
  graph.node(graph.value(here).producer).device = "task:0";
  graph.node(graph.value(there).producer).device = "task:1";
  graph.node(graph.value(sum).producer).device = "task:0";
  graph.node(graph.value(product).producer).device = "task:1";
  must(g.status());
  CompileRequest request;
  request.borders = {{x}, {sum, product}, {}};
  request.devices = device_names(2);
  return must(compile(graph, request));
}

void swap_transfers(Partition& part) {
  const auto find = [&](Kind kind) {
    return std::find_if(part.instructions.begin(), part.instructions.end(),
                        [&](const PlanInstruction& i) { return i.kind == kind; });
  };
  std::iter_swap(find(Kind::send), find(Kind::receive));
}

}  // namespace

TEST_CASE("the plans of the shipped models pass the verifier") {
  for (const char* model : {"fashion_mlp", "fashion_cnn", "fashion_cnn_bn"}) {
    for (const JobStep step : {JobStep::train, JobStep::init, JobStep::eval, JobStep::predict}) {
      for (const DType precision : {DType::f32, DType::bf16}) {
        for (int workers = 1; workers <= 4; ++workers) {
          INFO(model << " " << static_cast<int>(step) << " " << precision << " " << workers);
          must(verify(shipped_plan(model, step, workers, precision)));
        }
      }
    }
  }
}

TEST_CASE("every hostile plan is refused, and the refusal says why") {
  const Plan good = small_plan(2, 2);
  must(verify(good));
  for (const HostilePlan& hostile : hostile_plans()) {
    INFO(hostile.what);
    Plan plan = good;
    hostile.change(plan);
    const Status status = verify(plan);
    INFO(status.message());
    CHECK(status.code() == Code::internal);
    CHECK(status.message().find(hostile.message) != std::string::npos);
  }
}

TEST_CASE("partitions that wait for each other are refused") {
  Plan plan = exchange_plan();
  must(verify(plan));
  swap_transfers(plan.partitions[0]);
  must(verify(plan));  // one of them still sends first
  swap_transfers(plan.partitions[1]);
  CHECK(verify(plan).message().find("waits forever for") != std::string::npos);
}

TEST_CASE("a feed goes to bytes of its own in the arena, of its type") {
  const Plan good = exchange_plan();
  const uint32_t fed = good.partitions[0].feeds[0];
  const auto refused = [&](const auto& change, std::string_view message) {
    Plan plan = good;
    change(plan, plan.partitions[0].values[fed]);
    const Status status = verify(plan);
    INFO(status.message());
    CHECK(status.message().find(message) != std::string::npos);
  };
  refused([](Plan& p, PlanValue&) { p.feeds[0].shape = Shape{4}; }, "none of its own");
  refused([](Plan& p, PlanValue&) { p.feeds[0].dtype = DType::i32; }, "none of its own");
  refused([](Plan& p, PlanValue&) { p.partitions[0].feeds[0] = 1000; }, "goes to value 1000");
  refused([](Plan&, PlanValue& v) { v.home = Home::slot; }, "none of its own");
  refused([&](Plan& p, PlanValue&) { p.partitions[0].instructions[0].outputs[0] = fed; },
          "none of its own");
}

TEST_CASE("a partition that is elsewhere is taken on trust") {
  Plan plan = small_plan(2, 2);
  Partition reduced;
  reduced.device = plan.partitions[1].device;
  reduced.elsewhere = true;
  plan.partitions[1] = reduced;
  must(verify(plan));
  CHECK(plan.text().find("partition 1 job:worker/task:1/cpu:0 elsewhere") != std::string::npos);
}

}  // namespace leat
