// Collectives of logical shards have the same result on any number of workers. Also runs under
// ThreadSanitizer.
#include <numeric>

#include "tests/scheduler/scheduler_testing.h"

namespace leat {
namespace {

// Compiles the graph of one shard for `workers` workers, and returns the fetch after two steps.
Tensor run_shards(const std::string& strategy,
                  const std::function<ValueId(GraphBuilder&, ValueId)>& build, int workers) {
  Graph graph(scheduler_catalogue());
  GraphBuilder g(graph);
  const ValueId rows = g.op("test.Rows", {}, {{"rows", int64_t{kShards}}});
  const ValueId result = build(g, rows);
  must(g.status());
  CompileRequest request;
  request.borders.fetches = {result};
  request.devices = cpus(workers);
  request.strategy = strategy;
  request.shards = kShards;
  PlanRunner runner(must(compile(graph, request)), 2);
  must(runner.step_to(2));
  return runner.fetched(0, 1);
}

Attrs replicas(Attrs attrs = {}) {
  attrs["replicas"] = int64_t{kShards};
  return attrs;
}

ValueId gather(GraphBuilder& g, ValueId x) { return g.op("leat.AllGather", {x}, replicas()); }

}  // namespace

TEST_CASE("collectives give what their names say on 1 to 4 workers", "[cluster]") {
  const std::string strategy = GENERATE("mirrored", "parameter_server", "central_storage");
  const auto run = [&](const auto& build, int workers) {
    return run_shards(strategy, build, workers);
  };
  for (int workers = 1; workers <= kShards; ++workers) {
    INFO(strategy << ", workers " << workers);
    const auto all_reduce = [](const char* op) {
      return [op](GraphBuilder& g, ValueId x) {
        return g.op("leat.AllReduce", {x}, {{"op", std::string(op)}});
      };
    };
    // Shard s holds 4s, 4s+1, 4s+2, 4s+3.
    CHECK(run(all_reduce("sum"), workers).identical(Tensor::of<float>({4}, {24, 28, 32, 36})));
    CHECK(run(all_reduce("mean"), workers).identical(Tensor::of<float>({4}, {6, 7, 8, 9})));
    CHECK(run(all_reduce("max"), workers).identical(Tensor::of<float>({4}, {12, 13, 14, 15})));
    CHECK(run(all_reduce("min"), workers).identical(Tensor::of<float>({4}, {0, 1, 2, 3})));
    std::vector<float> whole(16);
    std::iota(whole.begin(), whole.end(), 0.0f);
    CHECK(run(gather, workers).identical(Tensor::of<float>({16}, whole)));
    const auto broadcast = [](GraphBuilder& g, ValueId x) {
      return g.op("leat.Broadcast", {x}, {{"root", int64_t{2}}});
    };
    CHECK(run(broadcast, workers).identical(Tensor::of<float>({4}, {8, 9, 10, 11})));
    const auto scatter = [](GraphBuilder& g, ValueId x) {
      return gather(g, g.op("leat.ReduceScatter", {x}, replicas()));
    };
    CHECK(run(scatter, workers).identical(Tensor::of<float>({4}, {24, 28, 32, 36})));
    const auto to_all = [](GraphBuilder& g, ValueId x) {
      return gather(g, g.op("leat.AllToAll", {x}, replicas()));
    };
    CHECK(run(to_all, workers)
              .identical(
                  Tensor::of<float>({16}, {0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15})));
  }
}

TEST_CASE("gradients of collectives are what all shards owe their operands", "[cluster]") {
  const std::string strategy = GENERATE("mirrored", "parameter_server");
  // The gradients of sum(y * y) on each shard. `x` is 4 rows of a shard.
  const auto gradients = [&](const std::string& op, const Attrs& attrs, int workers) {
    return run_shards(
        strategy,
        [&](GraphBuilder& g, ValueId rows) {
          const ValueId x = g.op("Identity", {rows}), y = g.op(op, {x}, attrs);
          const ValueId loss = g.op("Mul", {y, y}, {});
          const ValueId gradient = g.op("leat.Gradients", {loss, x});
          // The gradient of a sum is the same on all shards.
          return op == "leat.AllReduce" ? gradient : gather(g, gradient);
        },
        workers);
  };
  for (int workers = 1; workers <= kShards; ++workers) {
    INFO(strategy << ", workers " << workers);
    // Shard 2 holds 8, 9, 10, 11, and four shards square what they got.
    CHECK(gradients("leat.Broadcast", {{"root", int64_t{2}}}, workers)
              .identical(
                  Tensor::of<float>({16}, {0, 0, 0, 0, 0, 0, 0, 0, 64, 72, 80, 88, 0, 0, 0, 0})));
    // A scalar: each shard's is its mean, 4s + 1.5, and the root's is squared four times.
    const auto of_scalar = [&](GraphBuilder& g, ValueId rows) {
      const ValueId x = g.op("ReduceMean", {rows}, {{"keepdims", int64_t{0}}});
      const ValueId y = g.op("leat.Broadcast", {x}, {{"root", int64_t{2}}});
      const ValueId gradient = g.op("leat.Gradients", {g.op("Mul", {y, y}), x});
      const ValueId one = g.constant(Tensor::of<int64_t>({1}, {0}));
      return gather(g, g.op("Unsqueeze", {gradient, one}));
    };
    CHECK(run_shards(strategy, of_scalar, workers)
              .identical(Tensor::of<float>({4}, {0, 0, 4 * 2 * 9.5, 0})));
    // Every shard squares the sums 24, 28, 32, 36.
    CHECK(gradients("leat.AllReduce", {{"op", std::string("sum")}}, workers)
              .identical(Tensor::of<float>({4}, {192, 224, 256, 288})));
  }
}

TEST_CASE("a value that is the same on all shards is reduced without a transfer", "[cluster]") {
  const std::string strategy = GENERATE("mirrored", "parameter_server", "central_storage");
  for (int workers = 1; workers <= kShards; ++workers) {
    const auto reduced = [&](const char* op) {
      return run_shards(
          strategy,
          [op](GraphBuilder& g, ValueId) {
            const ValueId same = g.constant(Tensor::of<float>({2}, {1.5, -2}));
            return g.op("leat.AllReduce", {same}, {{"op", std::string(op)}});
          },
          workers);
    };
    CHECK(reduced("sum").identical(Tensor::of<float>({2}, {6, -8})));
    CHECK(reduced("mean").identical(Tensor::of<float>({2}, {1.5, -2})));
    CHECK(reduced("max").identical(Tensor::of<float>({2}, {1.5, -2})));
  }
}

TEST_CASE("a collective that does not fit the shards is refused by name") {
  Graph graph(scheduler_catalogue());
  GraphBuilder g(graph);
  const ValueId rows = g.op("test.Rows", {}, {{"rows", int64_t{kShards}}});
  const ValueId gathered = g.op("leat.AllGather", {rows}, {{"replicas", int64_t{3}}});
  must(g.status());
  CompileRequest request;
  request.borders.fetches = {gathered};
  request.devices = cpus(1);
  request.strategy = "mirrored";
  request.shards = kShards;
  const auto refused = compile(graph, request);
  REQUIRE(!refused.ok());
  CHECK(refused.status().message().find("replicas: expected 4") != std::string::npos);
}

}  // namespace leat
