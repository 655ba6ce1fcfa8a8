// Measures the overhead of a session's step: one scalar in, one scalar out, in one process.
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <iostream>

#include "daemon/hosts/local_hosts.h"
#include "daemon/session/session.h"
#include "ops/catalogue.h"
#include "ops/graph/builder.h"

namespace leat {
namespace {

template <typename T>
T must(Result<T> result) {
  if (result.ok()) return std::move(result).value();
  std::cerr << result.status() << "\n";
  std::exit(1);
}

// x + v, with the variable v on the first worker. x passes through all other workers on its way.
struct NullStep {
  explicit NullStep(int workers)
      : catalogue(standard_catalogue()), hosts(make_local_hosts(workers, 1)), graph(catalogue) {
    GraphBuilder g(graph);
    const ValueId v =
        g.op("leat.Variable", {}, {{"name", std::string("v")}, {"shape", std::vector<int64_t>{}}});
    ValueId x = g.input("x", DType::f32, Shape());
    for (int w = workers; w-- > 0;) {
      x = w == 0 ? g.op("Add", {x, g.op("leat.Read", {v})}) : g.op("Neg", {x});
      graph.node(graph.value(x).producer).device = "task:" + std::to_string(w);
    }
    g.named(x, "y");
    session = must(Session::open(*hosts, {}));
    must(session->extend(0, graph));
  }
  Catalogue catalogue;
  std::unique_ptr<HostGroup> hosts;
  Graph graph;
  std::unique_ptr<Session> session;
};

void run_callable(benchmark::State& state) {
  NullStep step(static_cast<int>(state.range(0)));
  const CallableId y = must(step.session->make_callable({{"x"}, {"y"}, {}}));
  const std::vector<Tensor> feeds{Tensor::scalar<float>(1)};
  for (auto _ : state) must(step.session->run_callable(y, feeds));
}

void run_by_name(benchmark::State& state) {
  NullStep step(1);
  const Feeds feeds{{"x", Tensor::scalar<float>(1)}};
  for (auto _ : state) must(step.session->run(feeds, {"y"}, {}));
}

}  // namespace

BENCHMARK(run_callable)->Name("run_callable/workers")->Arg(1)->Arg(2)->Arg(4)->UseRealTime();
BENCHMARK(run_by_name)->UseRealTime();

}  // namespace leat

BENCHMARK_MAIN();
