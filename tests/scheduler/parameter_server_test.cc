// Tests variables on parameter servers: their places, and the bytes that cross between workers.
#include <map>

#include "tests/scheduler/example_plans.h"

namespace leat {
namespace {

// Declares variables with these numbers of floats, and returns their servers.
VariableServers spread(const std::map<std::string, int64_t>& sizes, int servers) {
  Graph graph(scheduler_catalogue());
  GraphBuilder g(graph);
  for (const auto& [name, size] : sizes)
    g.op("leat.Variable", {}, {{"name", name}, {"shape", std::vector<int64_t>{size}}});
  must(g.status());
  return spread_variables({&graph}, servers);
}

size_t count(const Partition& partition, const std::string& op) {
  return static_cast<size_t>(
      std::count_if(partition.instructions.begin(), partition.instructions.end(),
                    [&](const PlanInstruction& i) { return i.op && i.op->full_name() == op; }));
}

}  // namespace

TEST_CASE("variables are spread by bytes, the largest first, ties by name") {
  CHECK(spread({{"a", 10}, {"b", 30}, {"c", 20}}, 2) ==
        VariableServers{{"a", 1}, {"b", 0}, {"c", 1}});
  CHECK(spread({{"a", 5}, {"b", 5}, {"c", 5}}, 2) == VariableServers{{"a", 0}, {"b", 1}, {"c", 0}});
  CHECK(spread({{"a", 1}, {"b", 2}}, 1) == VariableServers{{"a", 0}, {"b", 0}});
  CHECK(spread({{"a", 1}}, 3) == VariableServers{{"a", 0}});
}

TEST_CASE("each variable is on one server, with its optimizer's state, and is applied there") {
  for (int servers = 1; servers <= 4; ++servers) {
    INFO("servers " << servers);
    const Plan plan = small_server_plan(4, 4, servers);
    std::map<std::string, size_t> holder;
    for (size_t p = 0; p < plan.partitions.size(); ++p) {
      const Partition& partition = plan.partitions[p];
      for (const PlanResource& resource : partition.resources)
        CHECK(holder.emplace(resource.name, p).second);
      CHECK(count(partition, "leat.ApplyMomentum") * 2 == partition.resources.size());
      CHECK((partition.resources.empty()) == (p >= static_cast<size_t>(servers)));
    }
    CHECK(holder.size() == 8);
    for (const auto& [name, p] : holder) {
      if (!name.starts_with("optimizer/")) CHECK(holder.at("optimizer/" + name + "/momentum") == p);
    }
  }
}

TEST_CASE("a step sends each variable to each other worker once, and a gradient back") {
  const Plan plan = small_server_plan(2, 2, 1);
  uint64_t variables = 0;
  for (const PlanResource& resource : plan.partitions[0].resources)
    variables += resource.name.starts_with("optimizer/") ? 0 : resource.bytes;
  uint64_t values = 0, gradients = 0;
  for (const PlanEdge& edge : plan.edges) (edge.from == 0 ? values : gradients) += edge.bytes;
  // In addition, the loss is sent one way to be summed, and the accuracy the other way.
  CHECK(values == variables + sizeof(float));
  CHECK(gradients == variables + sizeof(float));
}

TEST_CASE("more parameter servers than workers are refused") {
  Graph graph(scheduler_catalogue());
  GraphBuilder g(graph);
  CompileRequest request;
  request.borders.fetches = {g.op("leat.Step")};
  request.devices = cpus(2);
  request.strategy = "parameter_server";
  request.shards = 2;
  request.servers = 3;
  const auto refused = compile(graph, request);
  REQUIRE(!refused.ok());
  CHECK(refused.status().message() ==
        "parameter servers: expected 1 to 2, the workers, received 3");
}

}  // namespace leat
