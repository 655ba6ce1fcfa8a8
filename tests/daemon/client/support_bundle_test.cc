// Tests `leat support-bundle` as users run it: what is in the archive, and what it does without.
#include <filesystem>
#include <fstream>
#include <sstream>

#include "daemon/cli/filter_program.h"
#include "devices/base/text.h"
#include "tests/catch.h"
#include "tests/daemon/client/job_master.h"
#include "tests/daemon/leat_process.h"
#include "tests/must.h"

namespace leat {
namespace {

using namespace std::chrono_literals;

std::string text_of_file(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

struct SupportScene {
  Finished run(std::vector<std::string> arguments, const std::string& address) {
    arguments.insert(arguments.begin(), "support-bundle");
    return run_program(leat_binary(), folder.path(), arguments,
                       {"LEAT_MASTER=" + address, "LEAT_SECRET_FILE=", "LEAT_CLUSTER=",
                        "XDG_CONFIG_HOME=" + (folder / "config")});
  }
  Finished run(const std::vector<std::string>& arguments) {
    return run(arguments, master.address());
  }
  // Unpacks an archive, and returns the folder in it.
  std::string unpack(const std::string& archive) {
    const std::string to = folder / "unpacked";
    std::filesystem::remove_all(to);
    std::filesystem::create_directories(to);
    (void)must(run_filter({"tar", "-xzf", folder / archive, "-C", to}, "", 60s));
    REQUIRE(std::distance(std::filesystem::directory_iterator(to), {}) == 1);
    return std::filesystem::directory_iterator(to)->path();
  }
  // The names in the folder that are no temporary ones of the test.
  size_t entries() const {
    return static_cast<size_t>(
        std::distance(std::filesystem::directory_iterator(folder.path()), {}));
  }

  TemporaryDirectory folder;
  JobMaster master;
};

TEST_CASE("a bundle has what is known of the cluster and of the jobs that go on or failed") {
  SupportScene scene;
  FakeJobs& jobs = scene.master.jobs();
  const std::string runs = jobs.add("runs"), done = jobs.add("done", JobState::succeeded);
  const std::string failed = jobs.add("failed", JobState::failed);
  jobs.say(failed, "w1", "the last words");
  jobs.leave(failed, "job.yaml", std::as_bytes(std::span("version: 1\n", 11)));
  jobs.leave(failed, "checkpoints/step-00000005/manifest.json", std::as_bytes(std::span("{}", 2)));
  jobs.leave(failed, "log.txt", std::as_bytes(std::span("its own form", 12)));
  jobs.leave(failed, "weights.safetensors", std::as_bytes(std::span("1234", 4)));
  const Finished ended = scene.run({"-o", "b.tar.gz"});
  INFO(ended.err);
  REQUIRE(ended.exit_code == 0);
  CHECK(ended.out == "b.tar.gz\n");
  CHECK(scene.entries() == 1);  // no other file is left
  const std::string bundle = scene.unpack("b.tar.gz");
  CHECK_THAT(text_of_file(bundle + "/about.json"), Catch::Contains("\"kind\": \"SupportBundle\""));
  CHECK_THAT(text_of_file(bundle + "/settings.txt"),
             Catch::Contains(cat("master ", scene.master.address(), " (LEAT_MASTER)")));
  CHECK_THAT(text_of_file(bundle + "/doctor.txt"), Catch::Contains("processor"));
  CHECK_THAT(text_of_file(bundle + "/jobs.json"), Catch::Contains(done));
  CHECK(std::filesystem::exists(bundle + "/cluster.json"));
  CHECK(std::filesystem::exists(bundle + "/nodes.json"));
  CHECK_FALSE(std::filesystem::exists(bundle + "/jobs/" + done));
  CHECK_THAT(text_of_file(bundle + "/jobs/" + runs + "/job.json"), Catch::Contains("RUNNING"));
  const std::string of_failed = bundle + "/jobs/" + failed;
  CHECK_THAT(text_of_file(of_failed + "/log.txt"), Catch::Contains(" w1 | the last words\n"));
  CHECK(text_of_file(of_failed + "/files/job.yaml") == "version: 1\n");
  CHECK_THAT(text_of_file(of_failed + "/files.txt"), Catch::Contains("4 weights.safetensors\n"));
  CHECK_FALSE(std::filesystem::exists(of_failed + "/files/weights.safetensors"));
  CHECK_FALSE(std::filesystem::exists(of_failed + "/files/checkpoints"));
  CHECK_FALSE(std::filesystem::exists(of_failed + "/files/log.txt"));
  CHECK_FALSE(std::filesystem::exists(of_failed + "/why.txt"));
  // This master cannot look at jobs.
  CHECK_THAT(text_of_file(bundle + "/missing.txt"),
             Catch::Contains(cat("jobs/", runs, "/why.txt: unimplemented")));
  CHECK_THAT(ended.err, Catch::Contains(cat("leat: note: without jobs/", runs, "/why.txt")));
}

TEST_CASE("a bundle of named jobs has these alone, and a wrong name makes none") {
  SupportScene scene;
  const std::string done = scene.master.jobs().add("done", JobState::succeeded);
  const std::string other = scene.master.jobs().add("other");
  const Finished wrong = scene.run({"nobody", "-o", "b.tar.gz"});
  CHECK(wrong.exit_code == 5);
  CHECK(scene.entries() == 0);
  const Finished ended = scene.run({"done", "--json", "-o", "b.tar.gz"});
  REQUIRE(ended.exit_code == 0);
  CHECK_THAT(ended.out, Catch::Contains("\"path\": \"b.tar.gz\"") &&
                            Catch::Contains(cat("jobs/", done, "/job.json")));
  const std::string bundle = scene.unpack("b.tar.gz");
  CHECK(std::filesystem::exists(bundle + "/jobs/" + done));
  CHECK_FALSE(std::filesystem::exists(bundle + "/jobs/" + other));
}

TEST_CASE("a bundle without a master has what this machine knows") {
  SupportScene scene;
  const std::string address = scene.master.address();
  scene.master.stop();
  const Finished ended = scene.run({});
  INFO(ended.err);
  REQUIRE(ended.exit_code == 0);
  CHECK_THAT(ended.out, Catch::StartsWith("leat-support-") && Catch::EndsWith(".tar.gz\n"));
  CHECK_THAT(ended.err, Catch::Contains("leat: note: without the cluster: unavailable"));
  const std::string bundle = scene.unpack(ended.out.substr(0, ended.out.size() - 1));
  CHECK(std::filesystem::exists(bundle + "/doctor.txt"));
  CHECK_FALSE(std::filesystem::exists(bundle + "/jobs.json"));
  CHECK(scene.run({"some-job"}).exit_code == 3);
}

TEST_CASE("a master that lies about file names puts nothing beside the bundle") {
  SupportScene scene;
  const std::string id = scene.master.jobs().add("job", JobState::failed);
  scene.master.jobs().lies([](JobView&) {}, {"../../outside", "/tmp/outside"});
  const Finished ended = scene.run({"job", "-o", "b.tar.gz"});
  INFO(ended.err);
  REQUIRE(ended.exit_code == 0);
  CHECK(scene.entries() == 1);
  const std::string bundle = scene.unpack("b.tar.gz");
  CHECK_THAT(text_of_file(bundle + "/missing.txt"), Catch::Contains("outside"));
}

TEST_CASE("a bundle that cannot be written says so") {
  SupportScene scene;
  std::ofstream(scene.folder / "file") << "text";
  const Finished ended = scene.run({"-o", "file/b.tar.gz"});
  CHECK(ended.exit_code == 1);
  REQUIRE(ended.errors().size() == 1);
  CHECK_THAT(ended.errors()[0], Catch::Contains("file"));
}

}  // namespace
}  // namespace leat
