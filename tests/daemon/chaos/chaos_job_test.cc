// Jobs on the real daemons that bring faults upon themselves.
#include <fstream>
#include <nlohmann/json.hpp>

#include "devices/base/text.h"
#include "tests/catch.h"
#include "tests/daemon/process_cluster.h"
#include "tests/daemon/training_testing.h"
#include "tests/small_models.h"

namespace leat {
namespace {

TEST_CASE("a job ends with the same weights whatever its chaos does to its runners", "[cluster]") {
  const SmallJob small(kTinyDense);
  ProcessCluster cluster(
      {.workers = 2, .data_path = small.path(), .master = {"--set", "chaos=true"}});
  Job job = small.job({"num_workers=2", "steps=60", "checkpoint.every_steps=10"});
  const std::string expected = small.hash(job, "in-process");
  job.data.root = "data";
  const std::string path = small.path("job.yaml");
  std::ofstream(path) << print_job(job);
  const Finished done =
      cluster.leat("submit", {"--wait", "--json", path, "--chaos", "exit=runner:1@step=15",
                              "--chaos", "kill=runner:0@step=42"});
  INFO(done.out << done.err << cluster.logs());
  REQUIRE(done.exit_code == 0);
  const std::string id = cluster.leat("ps", {"--all", "--quiet"}).out;
  const auto view = nlohmann::json::parse(cluster.show(id.substr(0, id.find('\n'))));
  CHECK(view["weights_sha256"] == expected);
  const auto& history = view["history"];
  REQUIRE(history.size() == 2);
  CHECK(history[0]["fault"] == "exit=runner:1@step=15");
  CHECK(history[0]["stopped_at"] == 15);
  CHECK(history[0]["went_on_from"].get<int>() >= 10);
  CHECK(history[0]["recovery_seconds"].is_number());
  CHECK(history[1]["fault"] == "kill=runner:0@step=42");
  CHECK(history[1]["stopped_at"] == 42);
}

}  // namespace
}  // namespace leat
