#include "scheduler/runtime/workspaces.h"

#include <cmath>

#include "devices/base/text.h"
#include "ops/graph/interpret.h"
#include "tests/scheduler/scheduler_testing.h"

namespace leat {
namespace {

constexpr uint64_t kMiB = 1 << 20;

// Instructions with these chains; kNone: in none.
Partition partition_of(const std::vector<uint32_t>& chains) {
  Partition partition;
  partition.instructions.resize(chains.size());
  for (size_t i = 0; i < chains.size(); ++i) partition.instructions[i].chain = chains[i];
  return partition;
}

bool overlap(const WorkspacePlaces& places, const std::vector<uint64_t>& sizes, size_t a,
             size_t b) {
  return places.offsets[a] < places.offsets[b] + sizes[b] &&
         places.offsets[b] < places.offsets[a] + sizes[a];
}

}  // namespace

TEST_CASE("large workspaces share memory, but not those of a chain, or of neighbours") {
  // Chains of 1 to 7 instructions, and instructions in none; a third has small workspaces or none.
  std::vector<uint32_t> chains;
  std::vector<uint64_t> sizes;
  uint32_t random = 5;
  while (chains.size() < 400) {
    random = random * 1664525 + 1013904223;
    const uint32_t members = random >> 16 & 7;
    const auto first = static_cast<uint32_t>(chains.size());
    for (uint32_t i = 0; i < std::max(1u, members); ++i) {
      random = random * 1664525 + 1013904223;
      chains.push_back(members == 0 ? kNone : first);
      sizes.push_back((random >> 8) % 3 == 0 ? (random >> 12) % 3 * 4096
                                             : ((random >> 16) % 5 + 1) * kMiB);
    }
  }
  const Partition partition = partition_of(chains);
  const WorkspacePlaces places = place_workspaces(partition, sizes, false);
  REQUIRE(places.offsets.size() == sizes.size());
  uint64_t sum = 0;
  bool shares = false;
  for (size_t a = 0; a < sizes.size(); ++a) {
    CHECK(places.offsets[a] + sizes[a] <= places.bytes);
    sum += sizes[a];
    for (size_t b = 0; b < a; ++b) {
      const bool both = overlap(places, sizes, a, b);
      shares = shares || both;
      const bool small = sizes[a] < kMiB || sizes[b] < kMiB;
      const bool same_chain = chains[a] == chains[b] && chains[a] != kNone;
      if (both && (small || same_chain || a - b < 2)) FAIL("instructions " << a << " and " << b);
    }
  }
  CHECK(shares);
  CHECK(places.bytes < sum / 8);
  // The kernels of accelerators run one after the other.
  const WorkspacePlaces together = place_workspaces(partition, sizes, true);
  CHECK(together.bytes < places.bytes);
  CHECK(place_workspaces(partition_of({kNone}), {0}, false).bytes == 0);
}

TEST_CASE("convolutions that share the memory of their weights give the same bits in any order") {
  // Each packs its weights into 6 MiB; none waits for another one's result.
  constexpr int kConvolutions = 12;
  Graph graph(scheduler_catalogue());
  GraphBuilder g(graph);
  const ValueId x = g.input("x", DType::f32, Shape{8, 256, 3, 3});
  std::vector<ValueId> ends;
  for (int i = 0; i < kConvolutions; ++i) {
    Tensor weights(DType::f32, Shape{256, 256, 5, 5});
    float* at = weights.data<float>();
    for (int64_t k = 0; k < weights.elements(); ++k)
      at[k] = static_cast<float>((k * 7919 + i * 104729) % 2003 - 1001) * 1e-4f;
    ends.push_back(g.op("Conv", {x, g.constant(std::move(weights))},
                        {{"pads", std::vector<int64_t>{2, 2, 2, 2}}}));
  }
  must(g.status());
  CompileRequest request;
  request.borders = {{x}, ends, {}};
  request.devices = cpus(1);
  Tensor input(DType::f32, Shape{8, 256, 3, 3});
  for (int i = 0; i < input.elements(); ++i) input.set(i, (i % 601) * 0.003 - 0.9);
  // Close to the results of the kernels one by one, in plain layouts, whose bits may be others.
  const auto expected = must(interpret(graph, {{x, input}}, ends));
  const Plan plan = must(compile(graph, request));
  std::vector<Tensor> first;
  for (int threads : {1, 4}) {
    PlanRunner runner(plan, threads);
    for (uint64_t step = 0; step < 2; ++step) {
      must(runner.feed(0, input));
      must(runner.step_to(step + 1));
    }
    for (uint32_t i = 0; i < kConvolutions; ++i) {
      const Tensor result = runner.fetched(i, 1);
      double worst = 0;
      for (int64_t k = 0; k < result.elements(); ++k)
        worst = std::max(worst, std::abs(result.at(k) - expected[i].at(k)));
      CHECK(worst < 1e-4);
      if (threads == 1)
        first.push_back(result.clone());
      else
        CHECK(result.identical(first[i]));
    }
  }
}

}  // namespace leat
