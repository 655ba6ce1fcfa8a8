// The state of a run, from which a reader sees why it does not go on.
#include "tests/async_device.h"
#include "tests/scheduler/scheduler_testing.h"

namespace leat {
namespace {

// A plan of three nodes whose kernels call `look`.
Plan watched_plan(Catalogue& catalogue, std::function<void()> look) {
  class Watched final : public Kernel {
   public:
    explicit Watched(std::function<void()> look) : look_(std::move(look)) {}
    Progress run(KernelContext&, int, int) override {
      look_();
      return Progress::done;
    }

   private:
    const std::function<void()> look_;
  };
  catalogue.add(Op("test.Watched")
                    .stateful()
                    .infer([](InferContext&) { return Status(); })
                    .kernel("cpu", [look](const KernelSetup&) -> Result<std::unique_ptr<Kernel>> {
                      return std::unique_ptr<Kernel>(std::make_unique<Watched>(look));
                    }));
  Graph graph(catalogue);
  CompileRequest request;
  for (int i = 0; i < 3; ++i)
    request.borders.targets.push_back(graph.add_node(*catalogue.find("test.Watched"), {}, {}, 0));
  request.devices = cpus(1);
  return must(compile(graph, request));
}

TEST_CASE("a run is in a kernel while the kernel runs, and in none afterwards") {
  const int threads = GENERATE(1, 2);
  Catalogue catalogue = standard_catalogue();
  Run* stepped = nullptr;
  std::atomic<int> in_kernel{0};
  const Plan plan = watched_plan(catalogue, [&] {
    const RunSight sight = stepped->sight(nullptr);
    if (sight.state == RunSight::State::working && sight.instruction != kNone) ++in_kernel;
  });
  cpu::CpuDevice device(0, threads);
  JobResources resources(device);
  auto program = must(Program::create(plan, 0, device, resources, {}));
  Run run(*program, device.pool(), {});
  stepped = &run;
  run.extend(1);
  Awaited awaited;
  REQUIRE(run.advance(awaited));
  CHECK(in_kernel == 3);
  run.extend(2);  // it works: a thread is about to advance it
  const RunSight sight = run.sight(nullptr);
  CHECK(sight.state == RunSight::State::working);
  CHECK(sight.instruction == kNone);
}

TEST_CASE("a run that waits for its own device works, and waits for no instruction") {
  using testing::AsyncDevice;
  const Catalogue catalogue = testing::async_catalogue();
  Graph graph(catalogue);
  GraphBuilder g(graph);
  const ValueId x = g.input("x", DType::f32, Shape{64});
  const ValueId y = g.op("Tanh", {x});
  must(g.status());
  CompileRequest request;
  request.borders = {{x}, {y}, {}};
  request.devices = {{"job:worker/task:0/gpu:0", std::string(AsyncDevice::kKind), 0, 256}};
  const Plan plan = must(compile(graph, request));
  AsyncDevice device{testing::AsyncDeviceOptions()};
  JobResources resources(device);
  auto program = must(Program::create(plan, 0, device, resources, {}));
  cpu::Pool pool(1);
  Run run(*program, pool, {});
  must(run.set_feed(0, Tensor(DType::f32, Shape{64})));
  device.queue().hold(true);
  run.extend(1);
  Awaited awaited;
  REQUIRE_FALSE(run.advance(awaited));
  CHECK(awaited.instruction == kNone);
  const RunSight sight = run.sight(&awaited);
  CHECK(sight.state == RunSight::State::working);
  CHECK(sight.instruction == kNone);
  CHECK(run.waits_for(awaited).find("waits for its device") != std::string::npos);
  device.queue().hold(false);
}

}  // namespace
}  // namespace leat
