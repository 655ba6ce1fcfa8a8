#include "scheduler/runtime/profile.h"

#include "tests/scheduler/scheduler_testing.h"

namespace leat {
namespace {

// y = Slow(x): 16 tiles that take a while each.
Plan profiled_plan() {
  Graph graph(scheduler_catalogue());
  GraphBuilder g(graph);
  const ValueId x = g.input("x", DType::f32, Shape{64});
  const ValueId y = g.named(g.op("test.Slow", {g.op("Add", {x, x})}), "y");
  must(g.status());
  CompileRequest request;
  request.borders = {{x}, {y}, {}};
  request.devices = device_names(1);
  return must(compile(graph, request));
}

}  // namespace

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
    const size_t add = text.find("Add float[64]");  // or one of the others, below 0.1 %
    CHECK((add == std::string::npos || add > slow));
  }
}

TEST_CASE("a profiled kernel counts the calls of every step but the first") {
  PlanRunner runner(profiled_plan(), 2, RunOptions{.profile = true});
  must(runner.feed(0, Tensor(DType::f32, Shape{64})));
  must(runner.step_to(5));
  uint64_t calls = 0;
  for (uint32_t i = 0; i < runner.program().partition().instructions.size(); ++i) {
    const TimedKernel* kernel = runner.program().timed_kernel(i);
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
  CHECK(runner.program().timed_kernel(0) == nullptr);
  CHECK(profile_text(runner.program()).empty());
}

}  // namespace leat
