// Measures the executor's own cost on one core, with instructions that do nothing.
#include <benchmark/benchmark.h>

#include <chrono>
#include <cstdlib>
#include <iostream>

#include "devices/cpu/cpu_device.h"
#include "ops/catalogue.h"
#include "ops/graph/builder.h"
#include "scheduler/compile/compile.h"
#include "scheduler/runtime/program.h"
#include "scheduler/runtime/run.h"

namespace leat {
namespace {

class NullKernel final : public Kernel {
 public:
  Progress run(KernelContext&, int, int) override { return Progress::done; }
};

template <typename T>
T must(Result<T> result) {
  if (result.ok()) return std::move(result).value();
  std::cerr << result.status() << "\n";
  std::exit(1);
}

void null_ops(benchmark::State& state) {
  const auto ops = static_cast<int>(state.range(0));
  const auto threads = static_cast<int>(state.range(1));
  Catalogue catalogue = standard_catalogue();
  catalogue.add(Op("bench.Null")
                    .stateful()
                    .infer([](InferContext&) { return Status(); })
                    .kernel("cpu", [](const KernelSetup&) -> Result<std::unique_ptr<Kernel>> {
                      return std::unique_ptr<Kernel>(std::make_unique<NullKernel>());
                    }));
  Graph graph(catalogue);
  CompileRequest request;
  request.devices = {{"job:worker/task:0/cpu:0"}};
  const OpDef* null = catalogue.find("bench.Null");
  for (int i = 0; i < ops; ++i) request.borders.targets.push_back(graph.add_node(*null, {}, {}, 0));
  const Plan plan = must(compile(graph, request));
  cpu::CpuDevice device(0, threads);
  JobResources resources(device);
  auto program = must(Program::create(plan, 0, device, resources, {}));
  Run run(*program, device.pool(), {});
  uint64_t limit = 0;
  for (auto _ : state) {
    run.extend(limit += 8);
    Awaited awaited;
    if (!run.advance(awaited)) state.SkipWithError("the run waits");
  }
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations()) * 8 * ops);
}

}  // namespace

BENCHMARK(null_ops)
    ->ArgNames({"ops", "threads"})
    ->Args({1000, 1})
    ->Args({10000, 1})
    ->Args({1000, 2})
    ->UseRealTime();

}  // namespace leat

BENCHMARK_MAIN();
