// Jobs of daemons whose emulated GPU fails: the runner ends, and the job goes on with another one.
#include <filesystem>
#include <fstream>
#include <string>

#include "daemon/spec/job.h"
#include "devices/base/text.h"
#include "tests/catch.h"
#include "tests/cuda/gpu_job.h"
#include "tests/daemon/leat_process.h"
#include "tests/daemon/process_cluster.h"
#include "tests/daemon/training_testing.h"
#include "tests/temporary_directory.h"

namespace leat {
namespace {

// The text of the first key of that name in an output of --json; "" if there is none.
std::string text_of(const std::string& output, const std::string& key) {
  const std::string begins = cat("\"", key, "\":\"");
  const size_t at = output.find(begins);
  if (at == std::string::npos) return "";
  const size_t begin = at + begins.size();
  return output.substr(begin, output.find('"', begin) - begin);
}

// A cluster of two workers with an emulated GPU each, and a job for both.
class FaultyGpus {
 public:
  explicit FaultyGpus(const std::string& setting)
      : small_(testing::kMlp), cluster_(options_of(small_, setting)) {}
  Finished submit() {
    Job job = small_.job(
        {"num_workers=2", "resources_per_worker={gpu: 1}", "checkpoint={every_steps: 5}"});
    job.data.root = "data";
    const std::string path = small_.path("job.yaml");
    std::ofstream(path) << print_job(job);
    return cluster_.leat("submit", {"--wait", "--json", path});
  }
  std::string show(const std::string& id) { return cluster_.show(id); }
  std::string log_of(const std::string& id) { return cluster_.leat("logs", {id}).out; }
  std::string logs() const { return cluster_.logs(); }

 private:
  static ProcessClusterOptions options_of(const SmallJob& small, const std::string& setting) {
    const std::string plugins = cat("LEAT_PLUGINS=", LEAT_EMULATED_PLUGINS);
    ProcessClusterOptions options;
    options.workers = 2;
    options.data_path = small.path();
    options.master_environment = {plugins};
    options.worker_environment = {plugins, setting};
    // A confined runner removes no file, by which one process alone takes the fault.
    options.worker = {"--set", "runner.confine=insecure_off"};
    return options;
  }

  const SmallJob small_;
  ProcessCluster cluster_;
};

}  // namespace

TEST_CASE("a job goes on to the same weights after a GPU was lost, or a call of CUDA has failed") {
  // The last three lose the GPU while memory of a plan is allocated, of the host or of the device.
  const auto* const fault =
      GENERATE("lost 60", "cudaMemcpyAsync 40", "cudaEventRecord 60", "cudaEventQuery 5",
               "cudaEventQuery 60", "cudaLaunchKernelExC 30", "cudaGraphLaunch 10",
               "lost cudaHostAlloc 1", "lost cudaMalloc 1", "lost cudaMalloc 12");
  INFO(fault);
  const TemporaryDirectory files;
  const std::string file = files / "fault";
  FaultyGpus gpus(cat("LEAT_FAKE_CUDA_FAULT=", file, " ", fault));
  const Finished whole = gpus.submit();
  INFO(whole.out << whole.err << gpus.logs());
  REQUIRE(whole.exit_code == 0);
  const std::string weights = text_of(whole.out, "weights_sha256");
  REQUIRE(weights.size() == 64);
  std::ofstream(file) << "now";
  const Finished ended = gpus.submit();
  INFO(ended.out << ended.err << gpus.logs());
  REQUIRE(ended.exit_code == 0);
  CHECK_FALSE(std::filesystem::exists(file));
  CHECK(text_of(ended.out, "weights_sha256") == weights);
  const std::string shown = gpus.show(text_of(ended.out, "id"));
  INFO(shown);
  CHECK_THAT(shown, Catch::Contains("\"restarts\":1"));
  CHECK_THAT(gpus.logs(), Catch::Contains("exited with status 6"));
  // The runner's own words are in the job's log, and tell the cause of the restart.
  const bool is_lost = std::string(fault).starts_with("lost");
  const auto* const error = is_lost ? "cudaErrorDevicesUnavailable" : "cudaErrorUnknown";
  const std::string log = gpus.log_of(text_of(ended.out, "id"));
  INFO(log);
  CHECK_THAT(log, Catch::Contains("gpu:0: ") && Catch::Contains(error));
  const std::string cause = text_of(shown, "cause");
  INFO(cause);
  CHECK_THAT(cause, Catch::Contains("gpu:0: ") && Catch::Contains(error));
}

TEST_CASE("a job that does not fit its GPU ends before its first step, and names what it needs") {
  FaultyGpus gpus("LEAT_FAKE_CUDA_MEMORY=8192");
  const Finished refused = gpus.submit();
  INFO(refused.out << refused.err << gpus.logs());
  CHECK(refused.exit_code != 0);
  const std::string shown = gpus.show(text_of(refused.out, "id"));
  INFO(shown);
  CHECK_THAT(shown, Catch::Contains("gpu:0"));
  CHECK_THAT(shown, Catch::Contains("expected to fit into") || Catch::Contains("to allocate"));
  CHECK_THAT(shown, Catch::Contains("\"step\":0"));
}

}  // namespace leat
