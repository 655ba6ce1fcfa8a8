// Tests plans whose steps write their results as a whole or not at all.
#include <cstring>

#include "devices/base/text.h"
#include "tests/scheduler/example_plans.h"
#include "tests/scheduler/plan_mutations.h"
#include "tests/scheduler/scheduler_testing.h"
#include "tests/slowness.h"

namespace leat {
namespace {

using Kind = PlanInstruction::Kind;

// A plan whose two variables count the steps. Its last node is a test.Fail that fails at step 3.
Plan counting_plan(bool recoverable, bool fails = true) {
  Graph graph(scheduler_catalogue());
  GraphBuilder g(graph);
  std::vector<NodeId> targets;
  std::vector<ValueId> reads;
  Tensor ones(DType::f32, Shape{50000});
  for (int64_t i = 0; i < ones.elements(); ++i) ones.set(i, 1);
  for (const char* name : {"a", "b", "c", "d", "e", "f"}) {
    const ValueId variable = g.op(
        "leat.Variable", {}, {{"name", std::string(name)}, {"shape", std::vector<int64_t>{50000}}});
    reads.push_back(g.op("leat.Read", {variable}));
    targets.push_back(g.effect("leat.AssignAdd", {variable, g.constant(ones)}));
  }
  const ValueId fetched = g.op("ReduceMax", {reads[0]}, {{"keepdims", int64_t{0}}});
  if (fails) targets.push_back(g.effect("test.Fail", {}, {{"step", int64_t{3}}}));
  must(g.status());
  CompileRequest request;
  request.borders = {{}, {fetched}, targets};
  request.devices = cpus(1);
  request.recoverable = recoverable;
  return must(compile(graph, request));
}

float first_of(PlanRunner& runner, const char* name) {
  return *static_cast<const float*>(runner.resources().find_variable(name)->data());
}

}  // namespace

TEST_CASE("a recoverable plan writes when all else that can wait is done") {
  for (const Plan& plan : {small_recoverable_plan(4, 1), small_recoverable_plan(4, 2),
                           small_recoverable_plan(4, 4), small_recoverable_plan(4, 3, 2)}) {
    INFO(plan.text());
    CHECK(plan.commits());
    for (const Partition& part : plan.partitions) {
      const uint32_t commit = part.commit(), last = part.last_write();
      if (last == kNone) {
        CHECK(commit == kNone);
        continue;
      }
      REQUIRE(commit < last);
      for (uint32_t i = 0; i < part.instructions.size(); ++i) {
        const PlanInstruction& instruction = part.instructions[i];
        const bool writes = instruction.op && !instruction.op->writes.empty();
        if (i < commit) CHECK_FALSE(writes);
        if (i > commit && i <= last) CHECK(instruction.kind == Kind::kernel);
        if (i > last) CHECK(instruction.kind == Kind::retire);
      }
    }
  }
  CHECK_FALSE(small_plan(4, 2).commits());
}

TEST_CASE("a recoverable plan computes the bits of one that is not") {
  const TemporaryDirectory directory;
  const std::string data = write_data(directory);
  for (int workers : {1, 2, 3}) {
    PlanRunner plain(small_plan(4, workers, data), 2);
    PlanRunner recoverable(small_recoverable_plan(4, workers, 0, data), 2);
    CHECK(results(plain, 6) == results(recoverable, 6));
  }
}

TEST_CASE("a plan that writes what it has waited for after a write does not commit") {
  Graph graph(scheduler_catalogue());
  GraphBuilder g(graph);
  const auto variable = [&](const char* name, int device) {
    const ValueId made =
        g.op("leat.Variable", {}, {{"name", std::string(name)}, {"shape", std::vector<int64_t>{}}});
    graph.node(graph.value(made).producer).device = cpus(2)[static_cast<size_t>(device)].name;
    return made;
  };
  const ValueId a = variable("a", 0), b = variable("b", 1);
  const NodeId first = g.effect("leat.AssignAdd", {a, g.scalar(DType::f32, 1)});
  const ValueId read = g.op("leat.Read", {a});
  graph.node(graph.value(read).producer).after = {first};
  const NodeId second = g.effect("leat.AssignAdd", {b, read});
  must(g.status());
  CompileRequest request;
  request.borders = {{}, {g.op("Neg", {g.op("leat.Read", {b})})}, {first, second}};
  request.devices = cpus(2);
  request.recoverable = true;
  const Plan plan = must(compile(graph, request));
  CHECK_FALSE(plan.commits());
  PlanRunner runner(plan, 1);
  must(runner.step_to(3));
  for (size_t p = 0; p < 2; ++p) CHECK_FALSE(runner.resources(p).commits().held().whole);
}

TEST_CASE("a plan that claims to commit and does not is refused") {
  const Plan good = small_recoverable_plan(2, 2);
  must(verify(good));
  const auto refused = [&](const std::function<void(Partition&)>& change, const char* message) {
    Plan plan = good;
    change(plan.partitions[0]);
    const Status status = verify(plan);
    INFO(status.message());
    CHECK(status.code() == Code::internal);
    CHECK(status.message().find(message) != std::string::npos);
  };
  refused([](Partition& part) { move_instruction(part, part.last_write(), part.commit()); },
          "is written before the step is committed");
  refused([](Partition& part) { move_instruction(part, part.commit(), part.last_write()); },
          "is written before the step is committed");
  refused(
      [](Partition& part) {
        for (size_t i = part.commit(); i-- > 0;) {
          if (part.instructions[i].kind != Kind::send) continue;
          return move_instruction(part, i, part.last_write() - 1);
        }
      },
      "stands between the writes of a commit");
  refused(
      [](Partition& part) {
        const PlanInstruction commit = part.instructions[part.commit()];
        part.instructions.insert(part.instructions.begin() + part.commit(), commit);
      },
      "commits the step once more");
  refused(
      [](Partition& part) {
        const auto number = [](size_t size) { return static_cast<uint32_t>(size); };
        const Attrs attrs{{"name", std::string("q")},
                          {"capacity", int64_t{1}},
                          {"components", std::vector<std::string>{"float[2]"}}};
        PlanValue queue;
        queue.type.present = true;
        queue.type.kind = ValueKind::resource;
        queue.home = Home::resource;
        queue.index = number(part.resources.size());
        part.resources.push_back({scheduler_catalogue().find("leat.Queue"), attrs, "q", 0});
        part.values.push_back(queue);
        PlanInstruction close;
        close.op = scheduler_catalogue().find("leat.Close");
        close.inputs = {number(part.values.size() - 1)};
        close.name = "close";
        part.instructions.insert(part.instructions.begin() + part.last_write(), close);
      },
      "'close' may wait between the writes of a commit");
}

TEST_CASE("a step that fails leaves no variable of a recoverable plan written") {
  for (int threads : {1, 3}) {
    PlanRunner runner(counting_plan(true), threads);
    CHECK_FALSE(runner.step_to(8).ok());
    runner.executor().remove(runner.run());
    CHECK(first_of(runner, "a") == 3);
    CHECK(first_of(runner, "b") == 3);
    const Held held = runner.resources().commits().held();
    CHECK(held.whole);
    CHECK(held.step == 3);
    CHECK(held.rows == std::vector<Held::Row>{{0, {0}}, {1, {1}}, {2, {2}}});
  }
}

TEST_CASE("a plan that does not commit leaves its variables of no step") {
  PlanRunner runner(counting_plan(false, false), 1);
  runner.resources().commits().declare(0);
  must(runner.step_to(2));
  CHECK_FALSE(runner.resources().commits().held().whole);
}

TEST_CASE("an abort at any moment leaves whole steps", "[cluster]") {
  constexpr int kStride = kSlowness > 1 ? 3 : 1;
  for (int threads : {1, 2, 4}) {
    for (int trial = 0; trial < 20; trial += kStride) {
      RunOptions options;
      options.first_step = 5;
      PlanRunner runner(counting_plan(true, false), threads, options);
      runner.extend(1000);
      must(runner.run().finished().wait(static_cast<uint64_t>(trial % 7), soon()));
      for (int spins = 0; spins < 20 * trial; ++spins) std::this_thread::yield();
      runner.run().abort(cancelled("enough"));
      runner.executor().remove(runner.run());
      const Held held = runner.resources().commits().held();
      REQUIRE(held.whole);
      for (const char* name : {"a", "f"}) {
        const Variable& variable = *runner.resources().find_variable(name);
        const auto* values = static_cast<const float*>(variable.data());
        const auto expected = static_cast<float>(held.step - 5);
        REQUIRE(std::all_of(values, values + 50000, [&](float v) { return v == expected; }));
      }
      REQUIRE(held.step >= 5 + runner.run().turns());
      REQUIRE(held.rows.size() == held.step - 5);
    }
  }
}

TEST_CASE("the writes of a step are not held up by other runs of the device", "[cluster]") {
  for (int trial = 0; trial < 10; ++trial) {
    cpu::CpuDevice device(0, 1 + trial % 2);
    JobResources one(device), other(device);
    const Plan plan = counting_plan(true, false);
    const auto program = must(Program::create(plan, 0, device, one, {}));
    const auto beside = must(Program::create(plan, 0, device, other, {}));
    Run run(*program, device.pool(), {}), busy(*beside, device.pool(), {});
    Executor executor(device.pool(), "driver");
    for (Run* each : {&run, &busy}) {
      executor.add(*each);
      each->extend(uint64_t{1} << 40);
      executor.wake(*each);
    }
    must(run.finished().wait(static_cast<uint64_t>(1 + trial % 5), soon()));
    for (int spins = 0; spins < 10 * trial; ++spins) std::this_thread::yield();
    run.abort(cancelled("enough"));
    executor.remove(run);
    const auto steps = static_cast<float>(one.commits().held().step);
    for (Variable* variable : one.variables())
      CHECK(*static_cast<const float*>(variable->data()) == steps);
    busy.abort(cancelled("enough"));
    executor.remove(busy);
  }
}

}  // namespace leat
