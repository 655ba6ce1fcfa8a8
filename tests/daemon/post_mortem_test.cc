// Makes jobs fail on real daemons, and looks at what the master leaves of them.
#include <signal.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "devices/base/text.h"
#include "tests/catch.h"
#include "tests/daemon/job_scene.h"
#include "tests/eventually.h"
#include "tests/must.h"
#include "tests/temporary_directory.h"

namespace leat {
namespace {

using namespace std::chrono_literals;

class FailedScene {
 public:
  FailedScene() : scene_(2) {}

  // Starts a job that no failure is forgiven, and waits for its 30th step.
  JobView start() {
    const std::string id =
        scene_.submit(scene_.endless({"num_workers=2", "shards=2", "max_failures=0"}));
    return scene_.await_step(id, 30, 1);
  }
  bool has(const std::string& id, const std::string& name) {
    const auto files = must(scene_.client().files(id));
    return std::any_of(files.begin(), files.end(),
                       [&](const RemoteFile& file) { return file.name == name; });
  }
  // Fetches one of the files.
  std::string read(const std::string& id, const std::string& name) {
    (void)must(scene_.client().fetch(id, name, folder_.path()));
    std::ifstream in(folder_ / name, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  JobScene& scene() { return scene_; }

 private:
  JobScene scene_;
  TemporaryDirectory folder_;
};

enum class Victim { runner, worker };

TEST_CASE("a job that fails leaves its cause, the last steps of each worker, and the plan") {
  const Victim victim = GENERATE(Victim::runner, Victim::worker);
  FailedScene failed;
  JobScene& scene = failed.scene();
  const JobView running = failed.start();
  const std::string id = running.id, worker = running.condition.workers[1];
  if (victim == Victim::worker) {
    scene.cluster().worker(worker).signal(SIGKILL);  // its runner ends with it
  } else {
    REQUIRE(::kill(scene.runners(running).at(worker), SIGKILL) == 0);
  }
  REQUIRE(scene.await_end(id).condition.state == JobState::failed);
  // The settings of the master come last.
  REQUIRE(eventually([&] { return failed.has(id, "post-mortem/master.txt"); }, 60s));

  const auto job = nlohmann::json::parse(failed.read(id, "post-mortem/job.json"));
  INFO(job.dump());
  CHECK(job.at("id") == id);
  CHECK(job.at("state") == "FAILED");
  CHECK(job.at("reason").get<std::string>().find(worker) != std::string::npos);

  // The last line of each worker is its last report.
  std::map<std::string, nlohmann::json> last;
  std::istringstream lines(failed.read(id, "post-mortem/steps.jsonl"));
  for (std::string line; std::getline(lines, line);) {
    const auto report = nlohmann::json::parse(line);
    INFO(line);
    CHECK(report.at("steps_done") <= report.at("steps_allowed"));
    CHECK(report.at("seconds_before_end") >= 0);
    const auto before = last.find(report.at("worker"));
    if (before != last.end()) {
      CHECK(report["steps_done"] > before->second["steps_done"]);
      CHECK(report["seconds_before_end"] <= before->second["seconds_before_end"]);
    }
    last[report["worker"]] = report;
  }
  REQUIRE(last.size() == 2);
  for (const std::string& each : running.condition.workers)
    CHECK(last.at(each).at("steps_done") >= 30);

  CHECK(failed.read(id, "post-mortem/plan.txt").find("cpu:0") != std::string::npos);
  CHECK(failed.read(id, "post-mortem/job.yaml").find("max_failures: 0") != std::string::npos);
  CHECK(failed.read(id, "post-mortem/nodes.json").find(worker) != std::string::npos);
  CHECK(failed.read(id, "post-mortem/master.txt").find("max_workers: 256\n") != std::string::npos);
  const Finished shown = scene.cluster().leat("show", {id});
  CHECK(shown.out.find(cat("leat fetch ", id, " copies post-mortem/")) != std::string::npos);
}

TEST_CASE("a job that is cancelled leaves no post-mortem") {
  FailedScene failed;
  const JobView running = failed.start();
  failed.scene().cancel(running.id);
  REQUIRE(failed.scene().await_end(running.id).condition.state == JobState::cancelled);
  CHECK(failed.scene().cluster().await_no_runners());
  // One thread writes them in the order in which jobs end.
  const JobView next = failed.start();
  REQUIRE(::kill(failed.scene().runners(next).begin()->second, SIGKILL) == 0);
  REQUIRE(failed.scene().await_end(next.id).condition.state == JobState::failed);
  REQUIRE(eventually([&] { return failed.has(next.id, "post-mortem/master.txt"); }, 60s));
  CHECK(!failed.has(running.id, "post-mortem/job.json"));
}

}  // namespace
}  // namespace leat
