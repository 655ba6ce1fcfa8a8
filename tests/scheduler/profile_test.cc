#include "scheduler/runtime/profile.h"

#include "devices/base/text.h"
#include "scheduler/runtime/kernel_notes.h"
#include "tests/scheduler/scheduler_testing.h"

namespace leat {
namespace {

// y = Slow(x): 16 slow tiles.
Plan profiled_plan() {
  Graph graph(scheduler_catalogue());
  GraphBuilder g(graph);
  const ValueId x = g.input("x", DType::f32, Shape{64});
  const ValueId y = g.named(g.op("test.Slow", {g.op("Add", {x, x})}), "y");
  must(g.status());
  CompileRequest request;
  request.borders = {{x}, {y}, {}};
  request.devices = cpus(1);
  return must(compile(graph, request));
}

// y = Conv(Conv(x)), both of `dtype`.
Plan convolving_plan(DType dtype) {
  Graph graph(scheduler_catalogue());
  GraphBuilder g(graph);
  const ValueId x = g.input("x", dtype, Shape{2, 4, 8, 8});
  const ValueId w = g.input("w", dtype, Shape{4, 4, 3, 3});
  const ValueId a = g.named(g.op("Conv", {x, w}), "a");
  const ValueId y = g.named(g.op("Conv", {a, w}), "y");
  must(g.status());
  CompileRequest request;
  request.borders = {{x, w}, {y}, {}};
  request.devices = cpus(1);
  return must(compile(graph, request));
}

}  // namespace

TEST_CASE("a convolution by plain loops is noted by name and reason in the plan and its profile") {
  CHECK(must(kernel_notes(convolving_plan(DType::f32))).empty());
  const std::string reason = "slow plain loops, because oneDNN has none for double";
  const Plan plan = convolving_plan(DType::f64);
  CHECK(must(kernel_notes(plan)) == std::vector<std::string>{"Conv 'a', Conv 'y': " + reason});

  PlanRunner runner(plan, 1, RunOptions{.profile = true});
  must(runner.feed(0, Tensor(DType::f64, Shape{2, 4, 8, 8})));
  must(runner.feed(1, Tensor(DType::f64, Shape{4, 4, 3, 3})));
  must(runner.step_to(3));
  const std::string text = profile_text(runner.program());
  INFO(text);
  CHECK(text.find(cat("  note: ", reason, "\n")) != std::string::npos);
  CHECK(text.find("             2  Conv\n") != std::string::npos);  // the sum of both
}

TEST_CASE("a kernel of more tiles than a plan may have is refused by name") {
  // The plan has sizes alone: none of these bytes is there.
  const auto made = [](int64_t elements) {
    Graph graph(scheduler_catalogue());
    GraphBuilder g(graph);
    const ValueId x = g.input("x", DType::u8, Shape{elements});
    const ValueId y = g.named(g.op("BitwiseNot", {x}), "y");
    must(g.status());
    CompileRequest request;
    request.borders = {{x}, {y}, {}};
    request.devices = cpus(1);
    const Plan plan = must(compile(graph, request));
    const Partition& partition = plan.partitions[0];
    for (const PlanInstruction& instruction : partition.instructions) {
      if (instruction.kind == PlanInstruction::Kind::kernel &&
          instruction.op->name == "BitwiseNot") {
        return make_instruction_kernel(partition, instruction, "cpu", nullptr, nullptr).status();
      }
    }
    return internal_error("the plan has no such kernel");
  };
  CHECK(made(int64_t{1} << 20).ok());
  const Status refused = made(int64_t{1} << 40);
  CHECK(refused.code() == Code::resource_exhausted);
  CHECK(refused.message() ==
        "BitwiseNot 'y': expected at most 16777216 tiles, received 33554432 in phase 0");
}

TEST_CASE("a profiled program says where the time of its steps went, the dearest first") {
  for (int threads : {1, 3}) {
    PlanRunner runner(profiled_plan(), threads, RunOptions{.profile = true});
    must(runner.feed(0, Tensor(DType::f32, Shape{64})));
    must(runner.step_to(1));
    CHECK(profile_text(runner.program()).empty());  // the first step is not counted
    must(runner.step_to(4));
    const std::string text = profile_text(runner.program());
    INFO(text);
    CHECK(text.rfind("CPU time of the kernels on job:worker/task:0/cpu:0: ", 0) == 0);
    const size_t slow = text.find("test.Slow float[64]  'y'  tiles 16\n");
    REQUIRE(slow != std::string::npos);
    const size_t add = text.find("Add float[64]");  // or among the others, below 0.1 %
    CHECK((add == std::string::npos || add > slow));
  }
}

TEST_CASE("a profiled kernel counts the calls of every step but the first") {
  PlanRunner runner(profiled_plan(), 2, RunOptions{.profile = true});
  must(runner.feed(0, Tensor(DType::f32, Shape{64})));
  must(runner.step_to(5));
  uint64_t calls = 0;
  for (uint32_t i = 0; i < runner.program().partition().instructions.size(); ++i) {
    const TimedKernel* kernel = runner.program().kernels().timed(i);
    if (!kernel || kernel->tiles(0) != 16) continue;
    calls = kernel->calls(0);
    CHECK(kernel->seconds(0) > 0);
  }
  CHECK(calls == 4 * 16);
}

TEST_CASE("a program that is not profiled wraps no kernel") {
  PlanRunner runner(profiled_plan(), 1);
  must(runner.feed(0, Tensor(DType::f32, Shape{64})));
  must(runner.step_to(2));
  CHECK(runner.program().kernels().timed(0) == nullptr);
  CHECK(profile_text(runner.program()).empty());
}

}  // namespace leat
