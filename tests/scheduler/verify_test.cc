// Tests the check before execution: plans of the compiler pass, and altered plans do not.
#include "scheduler/plan/verify_types.h"
#include "tests/scheduler/example_plans.h"
#include "tests/scheduler/hostile_plans.h"

namespace leat {
namespace {

using Kind = PlanInstruction::Kind;

// Two partitions that each send a scalar before they go on: 0 sends edge 0, and 1 sends edge 1.
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
  request.devices = cpus(2);
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

TEST_CASE("members of a chain read their own rows, and overwrite no rows of others") {
  Graph graph(scheduler_catalogue());
  GraphBuilder g(graph);
  const ValueId x = g.input("x", DType::f32, Shape{4, 4});
  const ValueId other = g.op("Exp", {x}), negative = g.op("Neg", {x});
  const ValueId product = g.op("MatMul", {other, negative});
  must(g.status());
  CompileRequest request;
  request.borders = {{x}, {product, other}, {}};
  request.devices = cpus(1);
  Plan plan = must(compile(graph, request));
  auto& instructions = plan.partitions[0].instructions;
  const auto find = [&](std::string_view op) {
    return static_cast<uint32_t>(
        std::find_if(instructions.begin(), instructions.end(),
                     [&](const PlanInstruction& i) { return i.op && i.op->full_name() == op; }) -
        instructions.begin());
  };
  for (PlanInstruction& i : instructions) {
    i.chain = kNone;
    i.tile_rows = 0;
  }
  must(verify(plan));
  const auto chained = [&](std::string_view one, std::string_view next) {
    Plan changed = plan;
    auto& all = changed.partitions[0].instructions;
    const uint32_t from = find(one), to = find(next);
    REQUIRE(to == from + 1);
    all[from].chain = all[to].chain = from;
    all[from].tile_rows = all[to].tile_rows = 1;
    return verify(changed).message();
  };
  // It reads all rows of its second operand, but other tiles have not made theirs yet.
  CHECK(chained("Neg", "MatMul").find("before its chain has made it") != std::string::npos);

  // The output would replace the input of the instruction before it.
  PlanValue& made = plan.partitions[0].values[instructions[find("Neg")].outputs[0]];
  PlanInstruction& neg = instructions[find("Neg")];
  neg.inputs[0] = instructions[find("Exp")].outputs[0];
  made.alias = neg.inputs[0];
  made.offset = plan.partitions[0].values[made.alias].offset;
  PlanInstruction reader = instructions[find("Exp")];
  reader.inputs[0] = neg.inputs[0];
  plan.partitions[0].values.push_back(plan.partitions[0].values[made.alias]);
  reader.outputs[0] = static_cast<uint32_t>(plan.partitions[0].values.size() - 1);
  plan.partitions[0].values.back().offset = plan.partitions[0].arena_bytes;
  plan.partitions[0].arena_bytes += 64;
  const uint32_t at = find("Neg");
  reader.op = scheduler_catalogue().find("Abs");
  instructions.insert(instructions.begin() + at, reader);
  CHECK(chained("Abs", "Neg").find("while its chain reads it") != std::string::npos);
}

TEST_CASE("an op whose output's size is known when it runs is refused") {
  OpTypes types;
  types.inputs = {{DType::f32, Shape{4}, Layout::plain, ValueKind::tensor, true},
                  {DType::i64, Shape{2}, Layout::plain, ValueKind::tensor, true}};
  types.outputs.resize(1);
  types.outputs[0].present = true;
  const OpDef& op = *scheduler_catalogue().find("Reshape");
  const auto inferred = infer_concrete(op, {}, "Reshape 'r'", types, {nullptr, nullptr});
  CHECK(inferred.status().message() ==
        "Reshape 'r': output 0: expected a shape that follows from the inputs, inferred [?,?]");
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
