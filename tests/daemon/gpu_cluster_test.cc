// Jobs on GPUs of the real daemons. The GPUs are of a plugin that needs none
// (tests/async_plugin.cc).
#include <signal.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "daemon/spec/job.h"
#include "daemon/worker/gpus.h"
#include "daemon/worker/worker_places.h"
#include "devices/base/text.h"
#include "tests/catch.h"
#include "tests/daemon/faults/process_facts.h"
#include "tests/daemon/json_lines.h"
#include "tests/daemon/process_cluster.h"
#include "tests/daemon/small_client.h"
#include "tests/daemon/training_testing.h"
#include "tests/eventually.h"
#include "tests/must.h"
#include "tests/promised_time.h"
#include "tests/small_models.h"

namespace leat {
namespace {

const std::string kPlugins = cat("LEAT_PLUGINS=", LEAT_ASYNC_PLUGINS);

// The options of a cluster whose workers have so many GPUs each.
ProcessClusterOptions with_gpus(int workers, const std::string& gpus) {
  ProcessClusterOptions options;
  options.workers = workers;
  options.master_environment = {kPlugins};
  options.worker_environment = {kPlugins, cat("LEAT_TEST_GPUS=", gpus)};
  return options;
}

class GpuScene {
 public:
  explicit GpuScene(ProcessClusterOptions options)
      : small_(small_cnn("tiny_cnn", true, 12)),
        cluster_((options.data_path = small_.path(), options)) {}

  ProcessCluster& cluster() { return cluster_; }
  // Submits the job, as one whose workers compute on a GPU each.
  Finished submit(std::vector<std::string> set, const std::vector<std::string>& flags = {}) {
    set.push_back("resources_per_worker={gpu: 1}");
    Job job = small_.job(set);
    job.data.root = "data";
    const std::string path = small_.path(cat("job-", ++jobs_, ".yaml"));
    std::ofstream(path) << print_job(job);
    std::vector<std::string> arguments = {"--json", path};
    arguments.insert(arguments.begin(), flags.begin(), flags.end());
    return cluster_.leat("submit", arguments);
  }
  nlohmann::json read(const Finished& done) {
    INFO(done.out << done.err << cluster_.logs());
    REQUIRE(done.exit_code == 0);
    return nlohmann::json::parse(last_object(done.out));
  }
  nlohmann::json show(const std::string& id) {
    return nlohmann::json::parse(last_object(cluster_.show(id)));
  }
  // The hash of the same job on the CPU of this process.
  std::string expected(const std::vector<std::string>& set) {
    return small_.hash(small_.job(set), cat("in-process-", ++jobs_));
  }
  const SmallJob& small() const { return small_; }

 private:
  SmallJob small_;
  ProcessCluster cluster_;
  int jobs_ = 0;
};

}  // namespace

TEST_CASE("a job on the GPUs of daemons ends with the weights of one CPU") {
  const std::string transports = GENERATE("[tcp]", "[shm]");
  ProcessClusterOptions options = with_gpus(2, "1");
  options.transports = transports;
  GpuScene scene(options);
  const Finished nodes = scene.cluster().leat("nodes", {});
  CHECK_THAT(nodes.out, Catch::Contains("gpu:0"));
  const auto ended = scene.read(scene.submit({"num_workers=2"}, {"--wait"}));
  CHECK(ended.value("weights_sha256", "") == scene.expected({}));
  // The facts beside the hash name what has computed it.
  const auto shown = scene.show(ended.value("id", ""));
  CHECK_THAT(shown.value("cpu", ""), Catch::EndsWith(", a thread that computes later"));
  // A job that asks for no GPU gets the same workers without theirs.
  Job job = scene.small().job({"num_workers=2"});
  job.data.root = "data";
  std::ofstream(scene.small().path("cpus.yaml")) << print_job(job);
  const auto on_cpus = scene.read(
      scene.cluster().leat("submit", {"--wait", "--json", scene.small().path("cpus.yaml")}));
  CHECK(on_cpus.value("weights_sha256", "") == ended.value("weights_sha256", "-"));
  CHECK_THAT(scene.show(on_cpus.value("id", "")).value("cpu", ""),
             !Catch::Contains("a thread that computes later"));
  CHECK(scene.cluster().await_no_runners());
}

TEST_CASE("runners on GPUs that are stopped or killed do not change the weights") {
  ProcessClusterOptions options = with_gpus(2, "1");
  options.master = {"--set", "chaos=true"};
  GpuScene scene(options);
  const std::vector<std::string> set = {"num_workers=2", "checkpoint={every_steps: 5}"};
  const auto ended = scene.read(
      scene.submit(set, {"--wait", "--chaos", "stop=runner:1@step=3,for=100ms", "--chaos",
                         "kill=runner:1@step=7", "--chaos", "kill=runner:0@step=18"}));
  CHECK(ended.value("weights_sha256", "") == scene.expected({}));
  const auto shown = scene.show(ended.value("id", ""));
  CHECK(shown.value("restarts", 0) == 2);
}

TEST_CASE("a job on GPUs goes on from the memory of those that are left") {
  ProcessClusterOptions options = with_gpus(2, "1");
  options.master = {"--set", "chaos=true"};
  GpuScene scene(options);
  const std::vector<std::string> set = {"num_workers=2", "checkpoint={every_steps: 1000}"};
  const auto ended = scene.read(scene.submit(set, {"--wait", "--chaos", "kill=runner:1@step=12"}));
  CHECK(ended.value("weights_sha256", "") == scene.expected({}));
  const auto lost = scene.show(ended.value("id", "")).at("history").at(0);
  INFO(lost.dump());
  CHECK(lost.value("source", "") == "memory");
  CHECK(lost.value("went_on_from", 0) >= 12);
}

TEST_CASE("a job goes on after a GPU has failed, with another process") {
  const TemporaryDirectory files;
  const std::string fails = files / "fails";
  ProcessClusterOptions options = with_gpus(2, "1");
  options.worker_environment.push_back("LEAT_TEST_GPU_FAILS=" + fails);
  options.worker = {"--set", "runner.confine=insecure_off"};  // a confined one removes no file
  GpuScene scene(options);
  std::ofstream(fails) << "now";  // the workers have looked at their GPUs
  const auto ended = scene.read(scene.submit({"num_workers=2"}, {"--wait"}));
  CHECK(ended.value("weights_sha256", "") == scene.expected({}));
  CHECK(!std::filesystem::exists(fails));
  const auto lost = scene.show(ended.value("id", "")).at("history").at(0);
  CHECK_THAT(lost.value("cause", ""), Catch::Contains("gpu:0: the device failed"));
  CHECK(scene.show(ended.value("id", "")).value("restarts", 0) == 1);
}

TEST_CASE("a job waits for a worker with a GPU, and says so") {
  GpuScene scene(with_gpus(1, "none"));
  CHECK_THAT(scene.cluster().worker(0).log(),
             Catch::Contains("offers no GPU: expected a GPU, received none"));
  const std::string id = scene.read(scene.submit({})).value("id", "");
  const auto reason = [&] { return scene.show(id).value("reason", ""); };
  const bool waits = eventually(
      [&] {
        return reason() ==
               "waits for 1 worker with data set 'data' and a GPU, 0 there; 'w0' has no GPU";
      },
      std::chrono::seconds(20), std::chrono::milliseconds(50));
  INFO(reason());
  CHECK(waits);
  CHECK(scene.cluster().leat("cancel", {"--wait", id}).exit_code == 0);
}

TEST_CASE("a master without the plugin refuses a job for GPUs") {
  ProcessClusterOptions options = with_gpus(1, "1");
  options.master_environment = {"LEAT_PLUGINS=/nowhere"};
  GpuScene scene(options);
  const Finished refused = scene.submit({});
  CHECK(refused.exit_code != 0);
  REQUIRE(refused.errors().size() == 1);
  CHECK_THAT(refused.errors()[0], Catch::Contains("resources_per_worker.gpu") &&
                                      Catch::Contains("/nowhere/libleat_cuda.so"));
}

TEST_CASE("a machine with two GPUs is two workers, which one job may have") {
  GpuScene scene(with_gpus(1, "2"));
  REQUIRE(scene.cluster().await_ready(2));
  const auto ended = scene.read(scene.submit({"num_workers=2"}, {"--wait"}));
  CHECK(ended.value("weights_sha256", "") == scene.expected({}));
  const auto workers = scene.show(ended.value("id", "")).at("workers");
  CHECK(workers == nlohmann::json({"w0.0", "w0.1"}));
  CHECK(scene.cluster().worker(0).stop() == 0);
}

TEST_CASE("leat plan plans for GPUs on a machine that has none") {
  const SmallJob small(small_cnn("tiny_cnn", true));
  std::ofstream(small.path("job.yaml"))
      << print_job(small.job({"num_workers=2", "resources_per_worker={gpu: 1}"}));
  const auto plan = [&](const std::string& plugins) {
    return run_program(leat_binary(), small.path(), {"plan", "job.yaml"},
                       {cat("LEAT_PLUGINS=", plugins)});
  };
  const Finished planned = plan(LEAT_ASYNC_PLUGINS);
  INFO(planned.err);
  CHECK(planned.exit_code == 0);
  for (const char* device : {"task:0/cpu:0", "task:0/gpu:0", "task:1/gpu:0"})
    CHECK_THAT(planned.out, Catch::Contains(cat("job:worker/", device)));
  const Finished refused = plan("/nowhere");
  CHECK(refused.exit_code != 0);
  CHECK_THAT(refused.err, Catch::Contains("plugin 'cuda'"));
}

TEST_CASE("the places of a machine divide its threads, and several may share a GPU") {
  WorkerConfig config;
  config.name = "node";
  config.state_dir = "/state";
  config.data = "10.0.0.1:17463";
  config.memory_limit = 4096;
  const auto alone = divide_machine(config, {}, 8);
  REQUIRE(alone.size() == 1);
  CHECK(alone[0].config.name == "node");
  CHECK(alone[0].config.threads == 0);
  CHECK(!alone[0].gpu);
  const Gpu first{{"cuda", "gpu:0", 1, 0, "one"}, "3"}, second{{"cuda", "gpu:0", 2, 0, "two"}, "5"};
  CHECK(divide_machine(config, {first}, 8)[0].config.name == "node");
  config.runners_per_gpu = 2;
  const auto places = divide_machine(config, {first, second}, 9);
  REQUIRE(places.size() == 4);
  CHECK(places[0].config.name == "node.0");
  CHECK(places[3].config.name == "node.3");
  CHECK(places[3].config.state_dir == "/state/3");
  CHECK(places[3].config.data == "10.0.0.1:17466");
  CHECK(places[3].config.data_address.empty());
  CHECK(places[3].config.threads == 2);
  CHECK(places[3].config.memory_limit == 1024);
  CHECK(places[1].gpu->visible == "3");
  CHECK(places[2].gpu->visible == "5");
}

TEST_CASE("GPUs are looked for by another process, which may hang") {
  CHECK(visible_gpu(nullptr, 2) == "2");
  CHECK(visible_gpu("7,GPU-8932f937,MIG-1", 1) == "GPU-8932f937");
  CHECK(visible_gpu("7", 0) == "7");
  CHECK(visible_gpu("7", 1).empty());
  ::setenv("LEAT_PLUGINS", LEAT_ASYNC_PLUGINS, 1);
  ::setenv("LEAT_TEST_GPUS", "3", 1);
  const auto three = must(find_gpus(LEATD_BINARY, std::chrono::seconds(20)));
  REQUIRE(three.size() == 3);
  CHECK(three[2].visible == "2");
  CHECK(three[2].device.kind == "async");
  CHECK(three[2].device.name == "gpu:0");
  CHECK(three[2].device.memory_bytes == uint64_t{1} << 30);
  CHECK(three[2].device.description == "a thread that computes later");
  ::setenv("LEAT_TEST_GPUS", "silent", 1);
  const auto asked = std::chrono::steady_clock::now();
  const auto silent = find_gpus(LEATD_BINARY, std::chrono::milliseconds(500));
  CHECK(silent.status().code() == Code::deadline_exceeded);
  CHECK_THAT(silent.status().message(), Catch::Contains("within 0.5 s"));
  check_promised(asked, std::chrono::seconds(2));
  ::setenv("LEAT_PLUGINS", "/nowhere", 1);
  CHECK(must(find_gpus(LEATD_BINARY, std::chrono::seconds(20))).empty());
  ::unsetenv("LEAT_PLUGINS");
  ::unsetenv("LEAT_TEST_GPUS");
}

}  // namespace leat
