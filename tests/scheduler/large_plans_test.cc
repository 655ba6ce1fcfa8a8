// Tests the structure that keeps plans with many shards or many nodes small, without measuring
// time.
#include <algorithm>
#include <map>

#include "tests/scheduler/example_plans.h"

namespace leat {
namespace {

constexpr int kBranches = 9000;

// A branch for each of many numbers. All branches live until they are added up in pairs.
Plan plan_of_branches() {
  Graph graph(scheduler_catalogue());
  GraphBuilder g(graph);
  const ValueId x = g.input("x", DType::f32, Shape{4});
  std::vector<ValueId> values;
  for (int i = 1; i <= kBranches; ++i)
    values.push_back(g.op("LeakyRelu", {x}, {{"alpha", 1.0 / i}}));
  while (values.size() > 1) {
    std::vector<ValueId> sums;
    for (size_t i = 0; i + 1 < values.size(); i += 2)
      sums.push_back(g.op("Add", {values[i], values[i + 1]}));
    if (values.size() % 2 == 1) sums.push_back(values.back());
    values = std::move(sums);
  }
  must(g.status());
  CompileRequest request;
  request.borders.feeds = {x};
  request.borders.fetches = values;
  request.devices = cpus(1);
  return must(compile(graph, request));
}

// One shard on each worker: its rows go through `activations` activations, and are summed with the
// others'.
Plan plan_of_workers(int workers, int activations) {
  Graph graph(scheduler_catalogue());
  GraphBuilder g(graph);
  ValueId value = g.op("test.Rows", {}, {{"rows", int64_t{1}}});
  for (int i = 0; i < activations; ++i) value = g.op("LeakyRelu", {value}, {{"alpha", 0.5}});
  const ValueId sum = g.named(g.op("leat.AllReduce", {value}), "sum");
  must(g.status());
  CompileRequest request;
  request.borders.fetches = {sum};
  request.devices = cpus(workers);
  request.strategy = "mirrored";
  request.shards = workers;
  return must(compile(graph, request));
}

}  // namespace

TEST_CASE("a worker has memory for the levels of the tree of sums, not for each shard's gradient") {
  const Partition few = small_plan(8, 1).partitions[0], many = small_plan(32, 1).partitions[0];
  // There are four times as many shards with a quarter of the rows each, so the tree has two levels
  // more.
  CHECK(many.arena_bytes <= few.arena_bytes + 2 * many.resource_bytes());
}

TEST_CASE("shards of one worker are added up between one shard and the next") {
  const Plan plan = small_plan(8, 1);
  const auto& instructions = plan.partitions[0].instructions;
  const auto is = [](std::string_view op) {
    return [op](const PlanInstruction& i) { return i.op && i.op->full_name() == op; };
  };
  const auto first_sum = std::find_if(instructions.begin(), instructions.end(), is("Add"));
  REQUIRE(first_sum != instructions.end());
  // Two shards have been read at this point, and six follow.
  CHECK(std::count_if(instructions.begin(), first_sum, is("leat.ReadBatch")) == 2);
  CHECK(std::count_if(first_sum, instructions.end(), is("leat.ReadBatch")) == 6);
}

TEST_CASE("thousands of values that live together share no bytes and leave none unused") {
  const Plan plan = plan_of_branches();  // verified: live values do not overlap
  const uint64_t aligned = 64;           // the bytes that a value of 16 bytes takes
  CHECK(plan.partitions[0].arena_bytes <= (kBranches + 2) * aligned);
}

TEST_CASE("a chain has few members, however many fit it") {
  std::map<uint32_t, size_t> members;
  size_t in_chains = 0;
  const Plan plan = plan_of_branches();
  for (const PlanInstruction& i : plan.partitions[0].instructions) {
    if (i.chain == kNone) continue;
    ++in_chains;
    CHECK(++members[i.chain] <= 256);
  }
  CHECK(in_chains > kBranches);
  CHECK(members.size() > 1);
}

TEST_CASE("workers that do the same share the attributes of what they do") {
  const Plan plan = plan_of_workers(8, 3);
  const auto& first = plan.partitions[4].instructions;
  const auto& second = plan.partitions[6].instructions;
  REQUIRE(first.size() == second.size());
  size_t with_attributes = 0;
  for (size_t i = 0; i < first.size(); ++i) {
    if (first[i].attrs.empty()) continue;
    ++with_attributes;
    CHECK(second[i].attrs.shares(first[i].attrs));
  }
  CHECK(with_attributes > 0);
}

TEST_CASE("each of a thousand workers gets one shard's instructions") {
  const int workers = 1024;
  const Plan plan = plan_of_workers(workers, 1);
  REQUIRE(plan.partitions.size() == static_cast<size_t>(workers));
  CHECK(plan.edges.size() == static_cast<size_t>(workers) - 1);  // to the worker that adds
  for (const Partition& part : plan.partitions) {
    const auto rows_read = std::count_if(
        part.instructions.begin(), part.instructions.end(),
        [](const PlanInstruction& i) { return i.op && i.op->full_name() == "test.Rows"; });
    CHECK(rows_read == 1);
  }
}

}  // namespace leat
