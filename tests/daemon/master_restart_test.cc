// Kills the master in the middle of jobs and starts it again. Every job that it had acknowledged
// must go on.
#include <signal.h>

#include <algorithm>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <thread>

#include "daemon/spec/job.h"
#include "devices/base/text.h"
#include "tests/catch.h"
#include "tests/daemon/json_lines.h"
#include "tests/daemon/process_cluster.h"
#include "tests/daemon/training_testing.h"
#include "tests/environment_number.h"
#include "tests/slowness.h"
#include "tests/small_models.h"

namespace leat {
namespace {

using namespace std::chrono_literals;

// A client, in a process of its own, that waits for its job.
class WaitingClient {
 public:
  WaitingClient(const std::string& folder, const std::string& master, const std::string& job_file)
      : out_(folder + "/waiting.out"),
        err_(folder + "/waiting.err"),
        child_(leat_binary(), {"submit", "--master", master, "--wait", "--json", job_file},
               {.folder = folder, .out = out_, .err = err_}) {}

  // Returns the job from its last line of output so far.
  nlohmann::json job() const { return nlohmann::json::parse(last_object(contents_of(out_))); }
  std::string said() const { return contents_of(err_); }
  std::optional<int> wait(std::chrono::seconds patience) { return child_.wait(patience); }

 private:
  const std::string out_, err_;
  ChildProcess child_;
};

class RestartScene {
 public:
  // A job with a checkpoint every `every_steps` steps.
  explicit RestartScene(int every_steps, uint64_t steps = 1200)
      : small_(kTinyCnn), cluster_({.workers = 2, .data_path = small_.path()}) {
    job_ = small_.job({cat("steps=", steps), "num_workers=2",
                       cat("checkpoint={every_steps: ", every_steps, ", keep: 2}")});
    Job submitted = job_;
    submitted.data.root = "data";
    std::ofstream(small_.path("job.yaml")) << print_job(submitted);
    client_.emplace(small_.path(), cluster_.master().ready().listen, small_.path("job.yaml"));
  }

  ProcessCluster& cluster() { return cluster_; }
  WaitingClient& client() { return *client_; }
  std::string expected() { return small_.hash(job_, small_.path("in-process")); }

  // Waits until the job has done `step` steps, and returns their number.
  uint64_t await_step(uint64_t step) {
    const auto deadline = std::chrono::steady_clock::now() + 30s;
    while (std::chrono::steady_clock::now() < deadline) {
      const auto shown = nlohmann::json::parse(
          cluster_.show(client_->job().value("id", "none-yet")), nullptr, false);
      if (shown.is_object() && shown.contains("progress")) {
        const uint64_t done = shown["progress"].value("step", uint64_t{0});
        if (done >= step) return done;
      }
      std::this_thread::sleep_for(20ms);
    }
    return 0;
  }
  // Returns the number of jobs that the master knows.
  size_t jobs() {
    const std::string out = cluster_.leat("ps", {"--all", "--json"}).out;
    return static_cast<size_t>(std::count(out.begin(), out.end(), '\n'));
  }

 private:
  SmallJob small_;
  ProcessCluster cluster_;
  Job job_;
  std::optional<WaitingClient> client_;
};

TEST_CASE("a job outlives its master, and so does the client that waits for it", "[faults]") {
  const int signal = GENERATE(SIGKILL, SIGTERM);
  // A master that stops in order makes its jobs write a checkpoint first.
  RestartScene scene(signal == SIGKILL ? 50 : 2000);
  const uint64_t before = scene.await_step(120);
  INFO(scene.cluster().logs());
  REQUIRE(before > 0);
  REQUIRE(before < 1150);
  scene.cluster().restart_master(signal);
  CHECK(scene.cluster().await_ready(2));
  const auto code = scene.client().wait(60s);
  INFO(scene.client().said() << scene.cluster().logs());
  REQUIRE(code == 0);
  const nlohmann::json job = scene.client().job();
  CHECK(job.value("state", "") == "SUCCEEDED");
  CHECK(job.value("assemblies", 0) == 2);
  CHECK(job.value("restarts", -1) == 0);
  CHECK(job.value("weights_sha256", "") == scene.expected());
  CHECK_THAT(scene.client().said(), Catch::Contains("connecting again"));
  const std::string log = scene.cluster().leat("logs", {job.value("id", "")}).out;
  CHECK_THAT(log, Catch::Contains("RECOVERING: the master restarted"));
  constexpr std::string_view kFrom = "goes on after step ";
  const size_t from = log.find(kFrom);
  REQUIRE(from != std::string::npos);
  const uint64_t step = std::stoull(log.substr(from + kFrom.size()));
  CHECK(step >= (signal == SIGKILL ? 50 : before));
  CHECK(scene.jobs() == 1);
  CHECK(scene.cluster().await_no_runners());
}

// LEAT_MASTER_KILLS=100 sets the number of kills.
TEST_CASE("a job's runners outlive its master, again and again, and lose no step", "[faults]") {
  const uint64_t kills = environment_number("LEAT_MASTER_KILLS", kSlowness > 1 ? 2 : 3);
  const uint64_t steps = 300 * (kills + 1);
  RestartScene scene(1'000'000, steps);  // no checkpoint before the end
  std::vector<pid_t> runners;
  uint64_t step = 0;
  for (uint64_t kill = 0; kill < kills; ++kill) {
    step = scene.await_step(step + 100);
    INFO(scene.cluster().logs());
    REQUIRE(step > 0);
    REQUIRE(step < steps - 50);
    if (kill == 0) runners = scene.cluster().runners();
    REQUIRE(runners.size() == 2);
    scene.cluster().restart_master(SIGKILL);
    CHECK(scene.cluster().await_ready(2));
    CHECK(scene.cluster().runners() == runners);
  }
  const auto code = scene.client().wait(60s);
  INFO(scene.client().said() << scene.cluster().logs());
  REQUIRE(code == 0);
  const nlohmann::json job = scene.client().job();
  CHECK(job.value("state", "") == "SUCCEEDED");
  CHECK(job.value("assemblies", uint64_t{0}) == 1 + kills);
  CHECK(job.value("restarts", -1) == 0);
  CHECK(job.value("weights_sha256", "") == scene.expected());
  uint64_t from_memory = 0;
  for (const nlohmann::json& lost : job["history"]) from_memory += lost["source"] == "memory";
  CHECK(from_memory == std::min<uint64_t>(kills, 100));  // the history keeps at most 100
  std::cout << kills << " kills, " << from_memory << " times from memory\n";
  CHECK(scene.cluster().await_no_runners());
}

}  // namespace
}  // namespace leat
