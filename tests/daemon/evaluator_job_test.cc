// Jobs that evaluate the checkpoints of another job of the cluster, with real daemons.
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "daemon/base/exit_code.h"
#include "daemon/checkpoint/checkpoint_store.h"
#include "devices/base/text.h"
#include "tests/catch.h"
#include "tests/daemon/bad_input.h"
#include "tests/daemon/child_process.h"
#include "tests/daemon/faults/process_facts.h"
#include "tests/daemon/json_lines.h"
#include "tests/daemon/leat_process.h"
#include "tests/daemon/process_cluster.h"
#include "tests/daemon/training_testing.h"
#include "tests/eventually.h"
#include "tests/must.h"
#include "tests/slowness.h"
#include "tests/small_models.h"

namespace leat {
namespace {

using namespace std::chrono_literals;
using Json = nlohmann::json;

// The numbers by step of the rows in a file of JSON lines that have `key`, and no step twice.
std::map<int64_t, double> numbers_in(const std::string& path, const std::string& key,
                                     const std::string& kind = "") {
  std::map<int64_t, double> out;
  std::istringstream lines(contents_of(path));
  for (std::string line; std::getline(lines, line);) {
    INFO(line);
    const Json row = Json::parse(line);
    if (!row.contains(key) || (!kind.empty() && !row.contains(kind))) continue;
    REQUIRE(!out.contains(row["step"]));
    out[row["step"]] = row[key];
  }
  return out;
}

// A job that trains on "w0", or the only worker that is free, and one that evaluates it.
class FollowedJob {
 public:
  explicit FollowedJob(uint64_t steps, int workers = 2, std::vector<std::string> set = {})
      : small_(kTinyCnn),
        cluster_(
            {.workers = workers, .data_path = small_.path(), .master = {"--set", "chaos=true"}}) {
    // Its own evaluations are at the steps of its checkpoints.
    set.insert(set.begin(), {cat("steps=", steps), "shards=2", "validation={every_steps: 50}",
                             "checkpoint={every_steps: 50, keep: 999}"});
    Job job = small_.job(set);
    job.data.root = "data";
    std::ofstream(file()) << print_job(job);
    trained = submit({file()});
  }

  std::string submit(std::vector<std::string> arguments) {
    arguments.push_back("--json");
    const Finished done = cluster_.leat("submit", arguments);
    INFO(done.out << done.err << cluster_.logs());
    REQUIRE(done.exit_code == 0);
    return Json::parse(last_object(done.out))["id"];
  }
  // The numbers of a file that the job has left.
  std::map<int64_t, double> fetched(const std::string& id, const std::string& name,
                                    const std::string& key, const std::string& kind = "") {
    const std::string folder = cluster_.folder() / ("of-" + id);
    const Finished done = cluster_.leat("fetch", {id, name, "-o", folder});
    INFO(done.err << cluster_.logs());
    REQUIRE(done.exit_code == 0);
    return numbers_in(cat(folder, "/", name), key, kind);
  }
  // Each of its checkpoints has a row, which is that of its own evaluation to the bit.
  void check_rows(const std::string& evaluator) {
    for (const char* key : {"val_loss", "val_accuracy"}) {
      const auto rows = fetched(evaluator, "evaluations.jsonl", key);
      const auto own = fetched(trained, "metrics.jsonl", key, "validation");
      CHECK(rows.size() >= 4);
      for (const auto& [step, number] : rows) {
        INFO(key << " of step " << step);
        REQUIRE(own.contains(step));
        CHECK(own.at(step) == number);
      }
      CHECK(rows.rbegin()->first == own.rbegin()->first);
    }
  }
  Json shown(const std::string& id) { return Json::parse(last_object(cluster_.show(id))); }
  bool await_step(const std::string& id, int64_t step) {
    return eventually(
        [&] {
          const Json now = shown(id);
          return now.contains("progress") && now["progress"].contains("step") &&
                 now["progress"]["step"].is_number() && now["progress"]["step"] >= step;
        },
        60s, 20ms);
  }
  std::string file() const { return small_.path("trained.yaml"); }
  ProcessCluster& cluster() { return cluster_; }

  std::string trained;  // the id of the job that trains

 private:
  const SmallJob small_;
  ProcessCluster cluster_;
};

}  // namespace

TEST_CASE("a job evaluates each checkpoint of another one, and ends after it", "[cluster]") {
  FollowedJob jobs(1000);
  ProcessCluster& cluster = jobs.cluster();
  // The job file is there at once, and the job's own copy of it once it trains.
  const std::string by_file = jobs.submit({jobs.file(), "--evaluate", jobs.trained});
  CHECK(cluster.await_state(by_file, {"SUCCEEDED", "FAILED"}) == "SUCCEEDED");
  INFO(cluster.logs());
  jobs.check_rows(by_file);
  CHECK(jobs.shown(by_file)["name"] == "small-evaluation");
  CHECK(jobs.shown(by_file)["progress"]["step"] == 1000);

  // After its end all is evaluated at once, and its own job file serves.
  const std::string by_job = jobs.submit({"--evaluate", jobs.trained});
  CHECK(cluster.await_state(by_job, {"SUCCEEDED", "FAILED"}) == "SUCCEEDED");
  jobs.check_rows(by_job);
  CHECK_THAT(cluster.leat("logs", {by_job}).out,
             Catch::Contains(cat("job '", jobs.trained, "' has ended as SUCCEEDED")));

  const auto refused = [&](const std::vector<std::string>& arguments) {
    return cluster.leat("submit", arguments);
  };
  check_refused(refused({"--evaluate", "nobody"}), kExitNoSuch, {"nobody"});
  check_refused(refused({jobs.file(), "--set", "evaluates=nobody"}), kExitInvalid,
                {"evaluates: expected the id of a job that trains on this cluster", "'nobody'"});
  check_refused(refused({"--evaluate", jobs.trained, "--set", "data.validation=null"}),
                kExitInvalid, {"expected data.validation"});
  check_refused(refused({"--evaluate", jobs.trained, "--chaos", "kill=worker:0@step=3"}),
                kExitInvalid, {"--chaos: expected none for a job that evaluates another one"});
}

TEST_CASE("a job that evaluates another one passes over damaged checkpoints", "[cluster]") {
  FollowedJob jobs(200);
  ProcessCluster& cluster = jobs.cluster();
  INFO(cluster.logs());
  REQUIRE(cluster.await_state(jobs.trained, {"SUCCEEDED"}) == "SUCCEEDED");
  const std::string folder =
      cat(cluster.folder() / "master", "/jobs/", jobs.trained, "/checkpoints");
  // A slow disk may leave out some of four, but not the last one.
  const auto paths = must(list_checkpoints(real_files(), folder));
  if (paths.size() > 1) std::filesystem::remove(paths[1] + "/manifest.json");
  if (paths.size() > 2) std::filesystem::resize_file(paths[2] + "/manifest.json", 10);
  const std::string id = jobs.submit({"--evaluate", jobs.trained});
  REQUIRE(cluster.await_state(id, {"SUCCEEDED", "FAILED"}) == "SUCCEEDED");
  const auto rows = jobs.fetched(id, "evaluations.jsonl", "val_loss");
  CHECK(rows.size() == paths.size() - std::min<size_t>(2, paths.size() - 1));
  CHECK(rows.rbegin()->first == 200);
  if (paths.size() > 1)
    CHECK_THAT(cluster.leat("logs", {id}).out,
               Catch::Contains("warning: passes over a checkpoint: "));
  check_refused(cluster.leat("submit", {"--evaluate", id}), kExitInvalid,
                {cat("'", id, "', which evaluates job '", jobs.trained, "'")});
}

TEST_CASE("a job whose workers each step by themselves is evaluated, too", "[cluster]") {
  FollowedJob jobs(100, 2,
                   {"strategy={name: parameter_server, mode: async}", "num_workers=2", "shards=1",
                    "global_batch_size=9"});
  ProcessCluster& cluster = jobs.cluster();
  INFO(cluster.logs());
  REQUIRE(cluster.await_state(jobs.trained, {"SUCCEEDED"}) == "SUCCEEDED");
  for (const auto& arguments :
       {std::vector<std::string>{"--evaluate", jobs.trained},
        std::vector<std::string>{jobs.file(), "--evaluate", jobs.trained}}) {
    const std::string id = jobs.submit(arguments);
    CHECK(cluster.await_state(id, {"SUCCEEDED", "FAILED"}) == "SUCCEEDED");
    CHECK(!jobs.fetched(id, "evaluations.jsonl", "val_loss").empty());
  }
}

TEST_CASE("a job that evaluates another one leaves it the only worker", "[faults]") {
  FollowedJob jobs(20'000 / kSlowness, 1);
  ProcessCluster& cluster = jobs.cluster();
  INFO(cluster.logs());
  const std::string evaluator = jobs.submit({jobs.file(), "--evaluate", jobs.trained});
  REQUIRE(jobs.await_step(jobs.trained, 100));
  REQUIRE(cluster.leat("pause", {jobs.trained}).exit_code == 0);
  const auto why = [&] {
    return Json::parse(last_object(cluster.leat("why", {evaluator, "--json"}).out));
  };
  REQUIRE(eventually([&] { return why()["kind"] == "job"; }, 60s, 20ms));
  CHECK(why()["subject"] == jobs.trained);
  REQUIRE(cluster.leat("resume", {jobs.trained}).exit_code == 0);
  CHECK(cluster.await_state(jobs.trained, {"SUCCEEDED", "FAILED"}) == "SUCCEEDED");
  CHECK(cluster.await_state(evaluator, {"SUCCEEDED", "FAILED"}) == "SUCCEEDED");
  jobs.check_rows(evaluator);
}

TEST_CASE("a job that evaluates another one survives a pause and the loss of processes",
          "[faults]") {
  FollowedJob jobs(20'000 / kSlowness);
  ProcessCluster& cluster = jobs.cluster();
  const std::string evaluator = jobs.submit({jobs.file(), "--evaluate", jobs.trained});
  INFO(cluster.logs());
  REQUIRE(jobs.await_step(evaluator, 100));
  REQUIRE(cluster.leat("pause", {evaluator}).exit_code == 0);
  CHECK(cluster.await_state(evaluator, {"PAUSED"}) == "PAUSED");
  REQUIRE(cluster.leat("resume", {evaluator}).exit_code == 0);

  const auto step_of = [&] { return jobs.shown(evaluator)["progress"]["step"].get<int64_t>(); };
  const int64_t resumed = step_of();
  REQUIRE(jobs.await_step(evaluator, resumed + 100));
  const std::string worker = jobs.shown(evaluator)["workers"][0];
  const auto runners = children_of(cluster.worker(worker).pid());
  REQUIRE(runners.size() == 1);
  REQUIRE(::kill(runners[0], SIGKILL) == 0);
  REQUIRE(jobs.await_step(evaluator, step_of() + 100));
  cluster.restart_master(SIGKILL);
  CHECK(cluster.await_state(evaluator, {"SUCCEEDED", "FAILED"}) == "SUCCEEDED");
  jobs.check_rows(evaluator);
  CHECK(jobs.shown(evaluator)["restarts"] >= 1);
}

}  // namespace leat
