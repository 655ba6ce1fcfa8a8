// `leat train --gpu` as a process, with a plugin that has an emulated GPU.
#include <nlohmann/json.hpp>

#include "devices/base/text.h"
#include "tests/catch.h"
#include "tests/daemon/json_lines.h"
#include "tests/daemon/leat_process.h"
#include "tests/daemon/leatd_process.h"
#include "tests/daemon/process_cluster.h"
#include "tests/daemon/training_testing.h"
#include "tests/eventually.h"
#include "tests/temporary_directory.h"

namespace leat {
namespace {

constexpr const char* kModel = R"(<ir_version: 10, opset_import: ["" : 20, "leat" : 1]>
mlp (float[N,1,8,8] image) => (float[N,4] logits) {
  f = Flatten (image)
  h = leat.Dense <units = 16> (f)
  a = Relu (h)
  logits = leat.Dense <units = 4> (a)
}
)";

// Runs `leat train` on the job that a training in this process has written.
Finished train(const SmallJob& small, const std::string& run, const std::string& output,
               const std::string& plugins, const std::string& set = "matmul_precision=float32") {
  return run_program(
      leat_binary(), small.path(),
      {"train", run + "/job.yaml", "--gpu", "--output", output, "--json", "--set", set},
      {"LEAT_PLUGINS=" + plugins});
}

// The text of a key of the last event that has it.
std::string value_of(const std::string& events, const std::string& key) {
  const size_t at = events.rfind(cat("\"", key, "\""));
  REQUIRE(at != std::string::npos);
  const size_t begin = events.find('"', at + key.size() + 2) + 1;
  return events.substr(begin, events.find('"', begin) - begin);
}

}  // namespace

TEST_CASE("leat train --gpu trains on the GPU of a plugin") {
  const SmallJob small(kModel);
  Silent watch;
  const TrainOutcome on_cpu = small.train(small.job({"num_workers=2"}), "cpu", watch);
  const Finished first = train(small, "cpu", "gpu", LEAT_EMULATED_PLUGINS);
  INFO(first.err);
  REQUIRE(first.exit_code == 0);
  CHECK_THAT(first.out, Catch::Contains("Emulated GPU, compute capability 9.0"));
  const Finished second = train(small, "cpu", "again", LEAT_EMULATED_PLUGINS);
  CHECK(value_of(first.out, "weights_sha256").size() == on_cpu.weights_sha256.size());
  CHECK(value_of(second.out, "weights_sha256") == value_of(first.out, "weights_sha256"));
  // Checkpoints are copied between two steps, while the training goes on. One that is due while the
  // last is being written is left out; none may be lost for want of a copy.
  CHECK_THAT(first.err, !Catch::Contains("a snapshot: expected"));
}

TEST_CASE("a job of daemons trains on the GPU of a plugin, to the weights of leat train --gpu") {
  const SmallJob small(kModel);
  Silent watch;
  small.train(small.job({"num_workers=2"}), "cpu", watch);
  const Finished alone = train(small, "cpu", "gpu", LEAT_EMULATED_PLUGINS);
  REQUIRE(alone.exit_code == 0);
  const std::string plugins = cat("LEAT_PLUGINS=", LEAT_EMULATED_PLUGINS);
  LeatdProcess dev({"dev", "--listen", "127.0.0.1:0", "--http", "off"}, {plugins});
  const auto leat = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {"--json", "--master", dev.ready().listen});
    const Finished done = run_leat(small.path(), arguments);
    INFO(done.out << done.err << dev.log());
    REQUIRE(done.exit_code == 0);
    return done.out;
  };
  std::vector<std::string> submit = {"submit", "cpu/job.yaml", "--wait", "--set",
                                     "resources_per_worker={gpu: 1}"};
  const std::string weights = value_of(alone.out, "weights_sha256");
  // Without validations no run is made in the midst of the training, which records rows.
  auto whole = submit;
  whole.insert(whole.end(),
               {"--set", cat("data={root: ", small.path(),
                             ", train: {format: npy, features: train-x.npy, labels: train-y.npy}, "
                             "rescale: 0.00392156862745098}")});
  const std::string first = leat(whole);
  CHECK(value_of(first, "weights_sha256") == weights);
  // The counts are logged when kernels are made, and at the end of a run if they have changed.
  const std::string logs = leat({"logs", value_of(first, "id")});
  CHECK_THAT(logs, Catch::Contains("gpu:0, its kernels so far: products: "));
  CHECK_THAT(logs, Catch::Contains(" by cuBLASLt; rows of kernels: "));
  // A runner is killed, and the job goes on from what the other's GPU holds.
  submit.insert(submit.end(),
                {"--set", "checkpoint={every_steps: 1000}", "--chaos", "kill=runner:1@step=12"});
  const std::string ended = leat(submit);
  CHECK(value_of(ended, "weights_sha256") == weights);
  CHECK(value_of(leat({"show", value_of(ended, "id")}), "source") == "memory");
  const Finished nodes = run_leat(small.path(), {"nodes", "--master", dev.ready().listen});
  CHECK_THAT(nodes.out, Catch::Contains("gpu:0 (Emulated GPU, "));
  CHECK(dev.stop() == 0);
}

TEST_CASE("values go from GPU to GPU by wires, and change no weights when a runner is killed") {
  const SmallJob small(kModel);
  Silent watch;
  small.train(small.job({"num_workers=2"}), "cpu", watch);
  const Finished alone = train(small, "cpu", "gpu", LEAT_EMULATED_PLUGINS);
  REQUIRE(alone.exit_code == 0);
  const std::string weights = value_of(alone.out, "weights_sha256");
  const std::string wires = GENERATE("ipc", "insecure_nccl");
  CAPTURE(wires);
  ProcessClusterOptions options;
  options.workers = 2;
  options.data_path = small.path();
  options.master_environment =
      options.worker_environment = {cat("LEAT_PLUGINS=", LEAT_EMULATED_PLUGINS)};
  options.master = {"--set", "chaos=true"};
  // The fake of IPC reads descriptors of the other process, which one with a user of its own may
  // not.
  options.worker = {"--set", "gpu_wires=" + wires, "--set", "runner.confine=insecure_off"};
  ProcessCluster cluster(options);
  const auto submit = [&](const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {
        small.path("cpu/job.yaml"),      "--wait", "--json",        "--set",
        "resources_per_worker={gpu: 1}", "--set",  "data.root=data"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Finished done = cluster.leat("submit", arguments);
    INFO(done.out << done.err << cluster.logs());
    REQUIRE(done.exit_code == 0);
    return done.out;
  };
  const auto by_wire = [&] {
    uint64_t bytes = 0;
    const auto nodes =
        nlohmann::json::parse(last_object(cluster.leat("nodes", {"--json"}).out)).at("items");
    for (const auto& node : nodes) bytes += node.at("traffic").value("bytes_by_wire", uint64_t{0});
    return bytes;
  };
  CHECK(value_of(submit({}), "weights_sha256") == weights);
  const bool counted = eventually([&] { return by_wire() > 0; }, std::chrono::seconds(20),
                                  std::chrono::milliseconds(50));
  INFO(cluster.logs());
  CHECK(counted);
  // The other GPU does what it was given, and the job goes on from its memory.
  const std::string ended =
      submit({"--set", "checkpoint={every_steps: 1000}", "--chaos", "kill=runner:1@step=12"});
  CHECK(value_of(ended, "weights_sha256") == weights);
  const auto shown = nlohmann::json::parse(last_object(cluster.show(value_of(ended, "id"))));
  CHECK(shown.at("history").at(0).value("source", "") == "memory");
}

TEST_CASE("a job that allows TF32 says so beside its weights, which are those of daemons, too") {
  const SmallJob small(kModel);
  Silent watch;
  small.train(small.job({"num_workers=2"}), "cpu", watch);
  const std::string tf32 = "matmul_precision=tf32";
  const Finished in_float32 = train(small, "cpu", "float32", LEAT_EMULATED_PLUGINS);
  const Finished in_tf32 = train(small, "cpu", "tf32", LEAT_EMULATED_PLUGINS, tf32);
  INFO(in_tf32.err);
  REQUIRE(in_tf32.exit_code == 0);
  const std::string weights = value_of(in_tf32.out, "weights_sha256");
  CHECK(weights != value_of(in_float32.out, "weights_sha256"));
  CHECK(value_of(in_float32.out, "precision") == "float32");
  CHECK(value_of(in_tf32.out, "precision") == "float32+tf32");
  LeatdProcess dev({"dev", "--listen", "127.0.0.1:0", "--http", "off"},
                   {cat("LEAT_PLUGINS=", LEAT_EMULATED_PLUGINS)});
  const auto leat = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {"--master", dev.ready().listen});
    const Finished done = run_leat(small.path(), arguments);
    INFO(done.out << done.err << dev.log());
    REQUIRE(done.exit_code == 0);
    return done.out;
  };
  const std::string ended = leat({"submit", "cpu/job.yaml", "--wait", "--json", "--set",
                                  "resources_per_worker={gpu: 1}", "--set", tf32});
  CHECK(value_of(ended, "weights_sha256") == weights);
  CHECK_THAT(leat({"show", value_of(ended, "id")}), Catch::Contains("precision float32+tf32"));
  CHECK(dev.stop() == 0);
}

TEST_CASE("leat train --gpu without a plugin says what it looked for") {
  const SmallJob small(kModel);
  Silent watch;
  small.train(small.job(), "cpu", watch);
  const TemporaryDirectory empty;
  const Finished refused = train(small, "cpu", "gpu", empty.path());
  CHECK(refused.exit_code != 0);
  REQUIRE(refused.errors().size() == 1);
  CHECK_THAT(refused.errors()[0], Catch::Contains("plugin 'cuda'"));
  CHECK_THAT(refused.errors()[0], Catch::Contains(empty.path() + "/libleat_cuda.so"));
}

}  // namespace leat
