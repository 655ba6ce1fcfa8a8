// The memory of the process of a training, as `leat plan` tells it before.
#include "daemon/cli/plan_memory.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "daemon/spec/job.h"
#include "devices/base/text.h"
#include "tests/catch.h"
#include "tests/daemon/leat_process.h"
#include "tests/daemon/training_testing.h"
#include "tests/must.h"
#include "tests/slowness.h"

namespace leat {
namespace {

using Json = nlohmann::json;

TEST_CASE("the most memory of a training is that of its start or of its steps") {
  TrainingMemory memory;
  memory.program = 10;
  memory.start = 300;
  memory.steps = 200;
  CHECK(memory.peak() == 300);
  memory.evaluation = 70;
  memory.checkpoint = 50;
  CHECK(memory.peak() == 300);
  memory.copies = true;
  CHECK(memory.peak() == 320);
}

// The most resident memory that `leat arguments...` had in the folder, in bytes.
uint64_t peak_of(const std::string& folder, const std::vector<std::string>& arguments) {
  std::vector<std::string> all = {leat_binary()};
  all.insert(all.end(), arguments.begin(), arguments.end());
  std::vector<char*> words;
  for (std::string& each : all) words.push_back(each.data());
  words.push_back(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    const bool ready = ::chdir(folder.c_str()) == 0 && std::freopen("/dev/null", "w", stdout) &&
                       std::freopen("/dev/null", "w", stderr);
    if (ready) ::execv(words[0], words.data());
    ::_exit(127);
  }
  int status = 0;
  rusage used{};
  REQUIRE(::wait4(child, &status, 0, &used) == child);
  REQUIRE((WIFEXITED(status) && WEXITSTATUS(status) == 0));
  return static_cast<uint64_t>(used.ru_maxrss) << 10;
}

// A network whose weights are most of its memory, and one that has nearly none.
std::string network(int units) {
  return cat(R"(<ir_version: 10, opset_import: ["" : 20, "leat" : 1]>
wide (float[N,8,8] x) => (float[N,4] y) {
  f = Flatten (x)
  a = leat.Dense <units = )",
             units, R"(, activation = "relu"> (f)
  b = leat.Dense <units = )",
             units, R"(, activation = "relu"> (a)
  y = leat.Dense <units = 4> (b)
}
)");
}

TEST_CASE("a training takes as much memory as its plan tells") {
  if (kSlowness > 1) return;  // a sanitizer has memory of its own
  const auto told_and_measured = [](int units) {
    const SmallJob small(network(units));
    const std::vector<std::string> set = {"steps=3", "optimizer={name: adam, learning_rate: 0.001}",
                                          "lr_scheduler={name: constant}"};
    Job job = small.job(set);
    job.data.validation.reset();
    job.exports = {Job::ExportFormat::onnx};
    // The model as a file with its tensors, as other programs write it.
    std::ofstream(small.path("job.yaml")) << print_job(job);
    REQUIRE(run_leat(small.path(), {"train", "job.yaml", "--output", "first"}).exit_code == 0);
    const std::vector<std::string> imported = {"--set", "model.graph=first/export/model.onnx",
                                               "--set", "export=[]"};
    std::vector<std::string> plan = {"plan", "job.yaml", "--json"},
                             train = {"train", "job.yaml", "--output", "second"};
    plan.insert(plan.end(), imported.begin(), imported.end());
    train.insert(train.end(), imported.begin(), imported.end());
    const Finished told = run_leat(small.path(), plan);
    INFO(told.err);
    REQUIRE(told.exit_code == 0);
    const size_t line = told.out.rfind("{\"memory\"");
    REQUIRE(line != std::string::npos);
    const Json memory = Json::parse(told.out.substr(line));
    CHECK(memory.at("program_bytes") > 0);
    return std::pair(memory.at("peak_bytes").get<double>(),
                     static_cast<double>(peak_of(small.path(), train)));
  };
  const auto [small_told, small_measured] = told_and_measured(8);
  const auto [told, measured] = told_and_measured(2560);
  INFO("told " << told << ", measured " << measured << "; small: told " << small_told
               << ", measured " << small_measured);
  const double job = measured - small_measured + small_told;
  CHECK(told > 0.9 * job);
  CHECK(told < 1.1 * job);
}

}  // namespace
}  // namespace leat
