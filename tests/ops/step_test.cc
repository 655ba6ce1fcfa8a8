// Tests steps that are drawn from a counter.
#include "tests/ops/job_testing.h"

namespace leat::testing {
namespace {

struct Drawer {
  explicit Drawer(TestJob& job) {
    const OpDef& counter = *test_catalogue().find("leat.StepCounter");
    const Attrs attrs{{"name", std::string("steps")}};
    KernelSetup setup;
    setup.types.attrs = &attrs;
    setup.resources = &job.resources;
    setup.device = &job.device;
    auto made = counter.make_resource(setup);
    REQUIRE(made.ok());
    address = (*made)->address();
    kernel = std::move(*test_catalogue().find("leat.NextStep")->kernels.at("cpu")(setup));
  }
  int64_t draw(uint64_t step) {
    struct Context final : StepContext {
      void fail(uint32_t, Status) override {}
    } context;
    context.step = step;
    int64_t drawn = -1;
    void* output = &drawn;
    KernelContext operands;
    operands.inputs = &address;
    operands.outputs = &output;
    operands.step = &context;
    CHECK(kernel->run(operands, 0, 0) == Progress::done);
    return drawn;
  }
  void* address = nullptr;
  std::unique_ptr<Kernel> kernel;
};

}  // namespace

TEST_CASE("callers that draw steps get each number once, from the first step on") {
  TestJob job;
  Drawer a(job), b(job);
  CHECK(a.draw(5) == 5);
  CHECK(b.draw(5) == 6);
  CHECK(b.draw(6) == 7);
  CHECK(a.draw(6) == 8);
}

TEST_CASE("a step counter begins anew when all its users are gone") {
  TestJob job;
  {
    Drawer a(job);
    Drawer b(job);
    CHECK(a.draw(5) == 5);
    CHECK(b.draw(5) == 6);
  }
  Drawer again(job);
  CHECK(again.draw(2) == 2);
  CHECK(again.draw(3) == 3);
}

TEST_CASE("a variable is no step counter") {
  TestJob job;
  const auto refused =
      job.try_run({}, {job.add("leat.NextStep", {job.variable("w", DType::f32, {2})})});
  REQUIRE(!refused.ok());
  CHECK(refused.status().message().find("expected a step counter, received a variable") !=
        std::string::npos);
}

}  // namespace leat::testing
