// Tests `leatd dev` without any flag: it serves this machine's jobs and keeps its folders here.
#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "daemon/base/exit_code.h"
#include "daemon/base/temporary_folder.h"
#include "tests/catch.h"
#include "tests/daemon/leatd_process.h"
#include "tests/daemon/training_testing.h"
#include "tests/must.h"
#include "tests/small_models.h"

namespace leat {
namespace {

namespace fs = std::filesystem;

class Dev {
 public:
  Dev() : process_({"dev", "--listen", "127.0.0.1:0", "--http", "off"}) {}
  Finished leat(const std::string& folder, std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {"--master", process_.ready().listen});
    return run_leat(folder, arguments);
  }
  // Submits a job file of the folder, as a user would type it.
  Finished submit(const std::string& folder, const std::vector<std::string>& more = {}) {
    std::vector<std::string> arguments = {"submit", "job.yaml", "--wait", "--json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return leat(folder, arguments);
  }
  LeatdProcess& process() { return process_; }

 private:
  LeatdProcess process_;
};

void write_job(const SmallJob& small, const Job& job) {
  std::ofstream(small.path("job.yaml")) << print_job(job);
}

TEST_CASE("dev trains a job of two workers on a folder of this machine, with no flag") {
  const SmallJob small(kTinyDense);
  Job job = small.job({"num_workers=2"});
  const std::string expected = small.hash(job, "in-process");
  Dev dev;
  SECTION("by its absolute path") {}
  SECTION("by its path from the job file") {
    fs::create_directory(small.path("data"));
    for (const auto& each : fs::directory_iterator(small.path())) {
      if (each.path().extension() == ".npy") fs::copy(each.path(), small.path("data"));
    }
    job.data.root = "data";
  }
  write_job(small, job);
  const Finished done = dev.submit(small.path());
  INFO(done.out << done.err << dev.process().log());
  CHECK(done.exit_code == 0);
  CHECK_THAT(done.out, Catch::Contains("SUCCEEDED") && Catch::Contains(expected));
  CHECK_THAT(dev.leat(small.path(), {"nodes"}).out, Catch::Contains("any path"));
}

TEST_CASE("dev refuses a job at submit whose data are nowhere, with what to do") {
  const SmallJob small(kTinyDense);
  write_job(small, small.job());
  Dev dev;
  const Finished no_folder = dev.submit(small.path(), {"--set", "data.root=/none/such"});
  CHECK(no_folder.exit_code == kExitInvalid);
  CHECK_THAT(no_folder.err, Catch::Contains("expected a folder of this machine, there is no "
                                            "'/none/such'"));
  const Finished no_name = dev.submit(small.path(), {"--set", "data.root=digits"});
  CHECK(no_name.exit_code == kExitInvalid);
  CHECK_THAT(no_name.err,
             Catch::Contains("received 'digits'") && Catch::Contains("--set datasets.NAME=PATH"));
}

TEST_CASE("the folder of a killed dev goes when the next one starts, and nothing else") {
  const TemporaryDirectory temporary;
  const std::vector<std::string> environment = {"TMPDIR=" + temporary.path()};
  const std::vector<std::string> arguments = {"dev", "--listen", "127.0.0.1:0", "--http", "off"};
  const auto folders = [&] {
    std::set<std::string> names;
    for (const auto& each : fs::directory_iterator(temporary.path()))
      names.insert(each.path().filename().string());
    return names;
  };
  fs::create_directory(temporary / "leat-dev-elsewhere");  // another program's folder
  fs::create_directory(temporary / "leat-dev-nolock");     // a daemon that is just starting
  LeatdProcess alive(arguments, environment);
  (void)alive.ready();
  const auto before = folders();
  CHECK(before.size() == 3);
  {
    LeatdProcess killed(arguments, environment);
    (void)killed.ready();
    CHECK(folders().size() == 4);
    killed.signal(SIGKILL);
    (void)killed.wait();
  }
  CHECK(folders().size() == 4);
  LeatdProcess next(arguments, environment);
  (void)next.ready();
  CHECK(folders().size() == 4);  // the new daemon's folder has replaced the old one
  CHECK(next.stop() == 0);
  CHECK(folders() == before);
  CHECK(alive.stop() == 0);
}

TEST_CASE("only processes of dev's user are let in") {
  const auto folder = must(TemporaryFolder::make("leat-test-dev"));
  Dev dev;
  CHECK(dev.leat(folder->path(), {"ps"}).exit_code == 0);
  if (::geteuid() != 0) return;  // only root can change its user
  const auto as_nobody = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(),
                     {"HOME=/", "setpriv", "--reuid=65534", "--clear-groups", leat_binary()});
    return run_program("/usr/bin/env", "/", arguments, {}, std::chrono::seconds(60));
  };
  if (as_nobody({"--version"}).exit_code != 0) return;  // the user nobody cannot read this build
  CHECK(as_nobody({"ps", "--master", dev.process().ready().listen}).exit_code != 0);
  CHECK_THAT(dev.process().log(), Catch::Contains("expected a role in local_users"));
}

}  // namespace
}  // namespace leat
