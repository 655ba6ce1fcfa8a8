// Trains tables of which a step reads few rows. Their bits must be those of dense gradients under
// every strategy, and their bytes must not move.
#include <cstring>
#include <map>
#include <utility>
#include <vector>

#include "devices/base/text.h"
#include "tests/scheduler/scheduler_testing.h"
#include "tests/slowness.h"

namespace leat {
namespace {

constexpr int64_t kTableRows = 500, kWidth = 20, kBatch = 6;  // rows of each shard
constexpr uint64_t kSteps = 4;
constexpr uint64_t kTableBytes = kTableRows * kWidth * sizeof(float);

struct SparseUpdate {
  std::string op;
  std::vector<std::string> slots;
  Attrs attrs;
  bool by_rows = false;  // the optimizer leaves other rows unchanged
};

std::vector<SparseUpdate> updates() {
  const Attrs lazy = {{"lazy", int64_t{1}}, {"weight_decay", 0.01}};
  const Attrs momentum = {{"momentum", 0.9}};
  Attrs lazy_momentum = lazy;
  for (const auto& [name, attr] : momentum) lazy_momentum.emplace(name, attr);
  return {{"leat.ApplySgd", {}, {}, true},
          {"leat.ApplySgd", {}, {{"weight_decay", 0.01}}},
          {"leat.ApplySgd", {}, lazy, true},
          {"leat.ApplyMomentum", {"velocity"}, momentum},
          {"leat.ApplyMomentum", {"velocity"}, lazy_momentum, true},
          {"leat.ApplyAdam", {"m", "v"}, {}},
          {"leat.ApplyAdam", {"m", "v"}, lazy, true},
          {"leat.ApplyAdamW", {"m", "v"}, lazy, true}};
}

// A job that trains one table with `uses` lookups. The ids change with the step, and some are equal
// within a shard and between shards.
struct Embedding {
  const SparseUpdate& update;
  int uses = 1;
  bool dense = false;  // through a product that no pass sees through, with equal bits
  int64_t rows = kTableRows;
  int64_t bad_id = 0;  // replaces id 3 of the global batch

  Graph graph{scheduler_catalogue()};
  std::vector<NodeId> targets = {};
  ValueId loss = kNone;

  ValueId ids(GraphBuilder& g, ValueId step, int use) const {
    const ValueId batch = g.op("test.Rows", {}, {{"rows", kBatch}});
    std::vector<int64_t> table;
    for (int64_t j = 0; j < kBatch * kShards; ++j)
      table.push_back(j % 5 == 0 ? -1 - use : (j * j * 13 + 7 * use) % (kTableRows - 50));
    if (bad_id != 0) table[3] = bad_id;
    const auto size = static_cast<int64_t>(table.size());
    const ValueId index = g.op("Cast", {batch}, {{"to", int64_t{dtype_onnx_code(DType::i64)}}});
    const ValueId first = g.op("Gather", {g.constant(Tensor::of<int64_t>({size}, table)), index});
    const ValueId shifted = g.op("Add", {first, step});
    if (use == 0) return shifted;
    return g.op("Reshape", {shifted, g.constant(Tensor::of<int64_t>({2}, {2, kBatch / 2}))});
  }

  void build() {
    GraphBuilder g(graph);
    const std::vector<int64_t> shape = {rows, kWidth};
    const auto variable = [&](const std::string& name) {
      return g.op("leat.Variable", {}, {{"name", name}, {"shape", shape}});
    };
    const ValueId table = variable("table");
    const ValueId read = g.op("leat.Read", {table});
    const ValueId step = g.op("leat.Step");
    const ValueId source = dense ? g.op("Mul", {read, g.scalar(DType::f32, 1)}) : read;
    std::vector<ValueId> parts;
    for (int use = 0; use < uses; ++use) {
      const ValueId looked_up = g.op("Gather", {source, ids(g, step, use)});
      const ValueId y = g.op("Tanh", {g.op("Mul", {looked_up, g.scalar(DType::f32, 1.5 + use)})});
      parts.push_back(g.op("ReduceSum", {y}, {{"keepdims", int64_t{0}}}));
    }
    const ValueId sum = uses == 1 ? parts[0] : g.op("Sum", parts);
    const ValueId gradient = g.ops("leat.Gradients", {sum, read}, {}, 1)[0];
    std::vector<ValueId> inputs = {table};
    for (const std::string& slot : update.slots) inputs.push_back(variable(slot));
    inputs.push_back(g.named(g.op("leat.AllReduce", {gradient}), "gradient"));
    inputs.push_back(g.scalar(DType::f32, 0.05));
    if (update.slots.size() == 2) inputs.push_back(step);
    targets.push_back(g.effect(update.op, inputs, update.attrs));
    loss = g.op("leat.AllReduce", {sum});
    must(g.status());
  }

  Plan plan(const std::string& strategy, int workers, int servers = 1) {
    if (targets.empty()) build();
    CompileRequest request;
    request.borders = {{}, {loss}, targets};
    request.devices = cpus(workers);
    request.strategy = strategy;
    request.shards = kShards;
    request.servers = servers;
    return must(compile(graph, request));
  }
};

// Trains some steps and returns all variables. Copies of one variable must be equal.
std::map<std::string, Tensor> train(Plan plan) {
  const size_t partitions = plan.partitions.size();
  PlanRunner runner(std::move(plan), 2);
  for (size_t p = 0; p < partitions; ++p) {
    for (Variable* variable : runner.resources(p).variables()) {
      auto* at = static_cast<float*>(variable->data());
      for (int64_t i = 0; i < variable->shape().elements(); ++i)
        at[i] = static_cast<float>(i * 37 % 101) * 0.01f;
    }
  }
  must(runner.step_to(kSteps));
  std::map<std::string, Tensor> out;
  for (size_t p = 0; p < partitions; ++p) {
    for (Variable* variable : runner.resources(p).variables()) {
      Tensor value(variable->dtype(), variable->shape());
      std::memcpy(value.raw(), variable->data(), value.bytes());
      const auto [it, fresh] = out.emplace(variable->name(), value);
      CHECK(it->second.identical(value));
    }
  }
  out.emplace("loss", runner.fetched(0, kSteps - 1));
  return out;
}

void check_equal(const std::map<std::string, Tensor>& actual,
                 const std::map<std::string, Tensor>& expected) {
  REQUIRE(actual.size() == expected.size());
  for (const auto& [name, value] : expected) {
    INFO(name);
    CHECK(actual.at(name).identical(value));
  }
}

size_t count(const Plan& plan, const std::string& op) {
  size_t n = 0;
  for (const Partition& partition : plan.partitions) {
    for (const PlanInstruction& i : partition.instructions) n += i.op && i.op->full_name() == op;
  }
  return n;
}

uint64_t largest_edge(const Plan& plan) {
  uint64_t bytes = 0;
  for (const PlanEdge& edge : plan.edges) bytes = std::max(bytes, edge.bytes);
  return bytes;
}

TEST_CASE("a table trained by rows has the bits of dense gradients", "[cluster]") {
  // A slow build runs only the most complex case.
  constexpr bool kSlow = kSlowness > 1;
  const std::vector<int> worker_counts = kSlow ? std::vector{3} : std::vector{1, 2, 3, 4};
  for (const SparseUpdate& update : updates()) {
    for (const int uses : kSlow ? std::vector{2} : std::vector{1, 2, 3}) {
      Embedding dense{update, uses, true}, sparse{update, uses};
      const auto expected = train(dense.plan("single", 1));
      CHECK(!expected.at("table").identical(Tensor(DType::f32, {kTableRows, kWidth})));
      const auto check = [&](const std::string& strategy, int workers, int servers) {
        INFO(update.op << ", " << uses << " uses, " << strategy << ", " << workers << " workers, "
                       << servers << " servers");
        const Plan plan = sparse.plan(strategy, workers, servers);
        CHECK(count(plan, "leat.GatherGrad") == 0);
        CHECK(count(plan, "leat.ReadRows") == static_cast<size_t>(uses * kShards));
        CHECK((count(plan, "leat.SumRows") == 0) == update.by_rows);
        CHECK(largest_edge(plan) < kTableBytes / 2);
        check_equal(train(plan), expected);
      };
      check("single", 1, 1);
      for (const int workers : worker_counts) check("mirrored", workers, 1);
      for (const int workers : worker_counts) check("parameter_server", workers, 1);
      check("parameter_server", 3, 2);
    }
  }
}

TEST_CASE("a table's size does not change what a step sends", "[cluster]") {
  const SparseUpdate sgd = updates()[0];
  std::vector<uint64_t> bytes;
  for (const int64_t rows : {kTableRows, kTableRows * 10}) {
    Embedding job{sgd, 2, false, rows};
    const Plan plan = job.plan("parameter_server", 4);
    uint64_t sent = 0;
    for (const PlanEdge& edge : plan.edges) sent += edge.bytes;
    bytes.push_back(sent);
    for (const Partition& partition : plan.partitions) CHECK(partition.arena_bytes < kTableBytes);
  }
  CHECK(bytes[0] == bytes[1]);
  // Three quarters of the shards are on other workers: ids go there, and rows and their gradients
  // back.
  const uint64_t ids = kBatch * 2 * sizeof(int64_t), lines = kBatch * 2 * kWidth * sizeof(float);
  CHECK(bytes[0] >= 3 * (ids + 2 * lines));
  CHECK(bytes[0] <= 3 * (2 * ids + 2 * lines) + 4 * kShards);
}

TEST_CASE("a table is read whole where a step may touch most of it, or more than rows is asked") {
  const SparseUpdate sgd = updates()[0];
  Embedding small{sgd, 1, false, kBatch * kShards - 1};
  small.bad_id = -1;
  const Plan plan = small.plan("parameter_server", 2);
  CHECK(count(plan, "leat.ReadRows") + count(plan, "leat.SumRows") == 0);
  CHECK(count(plan, "leat.GatherGrad") == kShards);
  Embedding enough{sgd, 1, false, kBatch * kShards};
  CHECK(count(enough.plan("parameter_server", 2), "leat.ReadRows") == kShards);

  // A program that also fetches the table's gradient gets a dense one, beside the update by rows.
  Embedding fetched{sgd, 1};
  fetched.build();
  CompileRequest request;
  request.borders = {{}, {*fetched.graph.find_value("gradient")}, fetched.targets};
  request.devices = cpus(2);
  request.strategy = "mirrored";
  request.shards = kShards;
  const Plan both = must(compile(fetched.graph, request));
  CHECK(count(both, "leat.SumRows") >= 1);
  CHECK(count(both, "leat.ApplySgd") == 2);
  PlanRunner runner(both, 1);
  must(runner.step_to(1));
  CHECK(runner.fetched(0, 0).shape() == Shape({kTableRows, kWidth}));
}

TEST_CASE("a bad id ends the step and is named, whoever reads the row", "[cluster]") {
  for (const int64_t bad : {kTableRows + 7, -kTableRows - 9}) {
    for (const std::string strategy : {"single", "mirrored", "parameter_server"}) {
      INFO(strategy << " " << bad);
      const SparseUpdate sgd = updates()[0];
      Embedding job{sgd, 1};
      job.bad_id = bad;
      PlanRunner runner(job.plan(strategy, strategy == "single" ? 1 : 2), 1);
      const Status failed = runner.step_to(1);
      CHECK(failed.code() == Code::invalid_argument);
      INFO(failed);
      CHECK(failed.message().find("leat.ReadRows") != std::string::npos);
      CHECK(failed.message().find(cat("expected an index in [-", kTableRows, ", ", kTableRows - 1,
                                      "], received ", bad, " as element 3")) != std::string::npos);
    }
  }
}

// A table is on one worker and its reader on another, without replicas.
TEST_CASE("model parallelism by hand moves rows alone") {
  Graph graph(scheduler_catalogue());
  GraphBuilder g(graph);
  const auto at = [&](int task, ValueId value) {
    must(g.status());
    graph.node(graph.value(value).producer).device = cat("task:", task);
    return value;
  };
  const ValueId table = at(0, g.op("leat.Variable", {},
                                   {{"name", std::string("table")},
                                    {"shape", std::vector<int64_t>{kTableRows, kWidth}}}));
  const ValueId read = at(0, g.op("leat.Read", {table}));
  const ValueId ids = g.input("ids", DType::i64, Shape{3});
  const ValueId rows = at(0, g.op("Gather", {read, ids}));
  const ValueId squares = at(1, g.op("Mul", {rows, rows}));
  const ValueId loss = at(1, g.op("ReduceSum", {squares}, {{"keepdims", int64_t{0}}}));
  const ValueId gradient = g.ops("leat.Gradients", {loss, read}, {}, 1)[0];
  CompileRequest request;
  request.borders.targets = {
      g.effect("leat.ApplySgd", {table, gradient, g.scalar(DType::f32, 0.25)})};
  must(g.status());
  request.borders.feeds = {ids};
  request.borders.fetches = {loss};
  request.devices = cpus(2);
  const Plan plan = must(compile(graph, request));
  CHECK(count(plan, "leat.ReadRows") == 1);
  CHECK(count(plan, "leat.GatherGrad") == 0);
  CHECK(largest_edge(plan) == 3 * kWidth * sizeof(float));
  PlanRunner runner(plan, 1);
  auto* weights = static_cast<float*>(runner.resources(0).find_variable("table")->data());
  for (int64_t i = 0; i < kTableRows * kWidth; ++i) weights[i] = 1;
  must(runner.feed(0, Tensor::of<int64_t>({3}, {7, 9, 7})));
  must(runner.step_to(1));
  CHECK(weights[9 * kWidth] == 0.5f);
  CHECK(weights[7 * kWidth] == 0);  // twice
  CHECK(weights[8 * kWidth] == 1);
}

}  // namespace
}  // namespace leat
