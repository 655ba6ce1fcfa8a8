// Jobs on the real daemons that order faults against themselves.
#include <fstream>
#include <nlohmann/json.hpp>

#include "devices/base/text.h"
#include "tests/catch.h"
#include "tests/daemon/branching_graph.h"
#include "tests/daemon/process_cluster.h"
#include "tests/daemon/training_testing.h"
#include "tests/slowness.h"

namespace leat {
namespace {

constexpr const char* kGraph = R"(<ir_version: 10, opset_import: ["" : 20, "leat" : 1]>
tiny (float[N,1,8,8] image) => (float[N,4] logits) {
  f = Flatten (image)
  logits = leat.Dense <units = 4> (f)
}
)";

// Runs a job of two workers (unless `sets` says otherwise) and 60 steps with this chaos to its end,
// and returns the output of `leat show --json`. `in_vain`: further faults, for tasks that the job
// does not have.
class ChaosJob {
 public:
  ChaosJob(const std::string& transports, const std::vector<std::string>& chaos,
           const std::vector<std::string>& sets = {"num_workers=2"},
           const std::vector<std::string>& in_vain = {}, const char* graph = kGraph)
      : small_(graph),
        cluster_({.workers = 3,
                  .transports = transports,
                  .data_path = small_.path(),
                  .master = {"--set", "chaos=true"}}) {
    std::vector<std::string> all{"steps=60", "checkpoint.every_steps=10"};
    all.insert(all.end(), sets.begin(), sets.end());
    Job job = small_.job(all);
    const bool timed = job.asynchronous() || job.has_quorum();  // so that the weights may vary
    const std::string expected = timed ? "" : small_.hash(job, "in-process");
    job.data.root = "data";
    const std::string path = small_.path("job.yaml");
    std::ofstream(path) << print_job(job);
    std::vector<std::string> arguments{"--wait", "--json", path};
    for (const auto* faults : {&chaos, &in_vain}) {
      for (const std::string& fault : *faults) {
        arguments.push_back("--chaos");
        arguments.push_back(fault);
      }
    }
    const Finished done = cluster_.leat("submit", arguments);
    INFO(done.out << done.err << cluster_.logs());
    REQUIRE(done.exit_code == 0);
    id_ = cluster_.leat("ps", {"--all", "--quiet"}).out;
    id_ = id_.substr(0, id_.find('\n'));
    view = nlohmann::json::parse(cluster_.show(id_));
    if (!timed) CHECK(view["weights_sha256"] == expected);
    CHECK(view["progress"]["step"] == job.steps);
    const std::string log = cluster_.leat("logs", {id_}).out;
    for (const std::string& fault : chaos) CHECK_THAT(log, Catch::Contains("chaos: " + fault));
  }

  nlohmann::json view;

 private:
  const SmallJob small_;
  ProcessCluster cluster_;
  std::string id_;
};

TEST_CASE("a job ends with the same weights whatever its chaos does to its runners", "[cluster]") {
  const ChaosJob job("[shm, tcp]", {"exit=runner:1@step=15", "kill=runner:0@step=42"});
  const auto& history = job.view["history"];
  REQUIRE(history.size() == 2);
  CHECK(history[0]["fault"] == "exit=runner:1@step=15");
  CHECK(history[0]["stopped_at"] == 15);
  CHECK(history[0]["went_on_from"].get<int>() >= 10);
  CHECK(history[0]["recovery_seconds"].is_number());
  CHECK(history[1]["fault"] == "kill=runner:0@step=42");
  CHECK(history[1]["stopped_at"] == 42);
}

TEST_CASE("a job whose branches depend on its data survives a runner that is killed", "[cluster]") {
  const ChaosJob job("[shm, tcp]", {"kill=runner:1@step=25"}, {"num_workers=2", "shards=4"}, {},
                     kBranchingGraph);
  REQUIRE(job.view["history"].size() == 1);
  CHECK(job.view["history"][0]["fault"] == "kill=runner:1@step=25");
}

TEST_CASE("chaos for workers that an elastic job does not have does not come", "[cluster]") {
  const std::string fall = "exit=runner:1@step=15";
  const ChaosJob job("[shm, tcp]", {fall}, {"num_workers=[1, 4]"}, {"exit=runner:3@step=20"});
  REQUIRE(job.view["history"].size() == 1);
  CHECK(job.view["history"][0]["fault"] == fall);
}

TEST_CASE("a bit that changes on its way ends the epoch, and never gets into weights",
          "[cluster]") {
  const ChaosJob job("[tcp]", {"corrupt=runner:1@step=20"});
  const auto& history = job.view["history"];
  REQUIRE(history.size() == 1);
  CHECK(history[0]["fault"] == "corrupt=runner:1@step=20");
  CHECK_THAT(history[0]["cause"].get<std::string>(), Catch::Contains("arrived damaged"));
}

TEST_CASE("a job whose master has a slow disk waits for nothing but its checkpoints", "[cluster]") {
  const ChaosJob job("[shm, tcp]", {"slow=master@step=5,for=1s"});
  CHECK(job.view["history"].empty());
}

// Runners of such a job do not see its steps, and none waits for a fault. So the job has more steps
// than it can do until the fault comes.
const std::string kManySteps = cat("steps=", kSlowness > 1 ? 600 : 3000);

TEST_CASE("chaos comes at its steps where each worker does steps of its own", "[cluster]") {
  const std::string fall = "exit=runner:1@step=30";
  const ChaosJob job("[shm, tcp]", {"slow=runner:0@step=15,for=50ms", fall},
                     {"num_workers=2", kManySteps, "checkpoint.every_steps=1000", "shards=1",
                      "strategy={name: parameter_server, mode: async}"});
  REQUIRE(job.view["history"].size() == 1);
  CHECK(job.view["history"][0]["fault"] == fall);
}

TEST_CASE("chaos comes at its steps in a job with backup workers", "[cluster]") {
  const ChaosJob job("[shm, tcp]", {"slow=runner:0@step=15,for=50ms", "exit=runner:2@step=30"},
                     {"num_workers=3", kManySteps, "checkpoint.every_steps=1000", "shards=2",
                      "strategy={name: parameter_server, mode: sync, num_ps: 1, "
                      "total_num_replicas: 3, replicas_to_aggregate: 2}"});
}

}  // namespace
}  // namespace leat
