// How `leatd runner` starts when it is confined, and how long that takes.
#include <linux/capability.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <iostream>

#include "daemon/worker/runner_confinement.h"
#include "daemon/worker/runner_handle.h"
#include "devices/base/text.h"
#include "tests/catch.h"
#include "tests/daemon/child_process.h"
#include "tests/must.h"
#include "tests/promised_time.h"
#include "tests/temporary_directory.h"

namespace leat {
namespace {

using namespace std::chrono_literals;
using StartClock = std::chrono::steady_clock;

// A worker's part of the start of runners, without a worker.
struct StartScene {
  explicit StartScene(Confine mode, bool local_paths = false) {
    WorkerConfig config;
    config.state_dir = folder.path();
    config.local_paths = local_paths;
    config.runner.confine = mode;
    confinement = must(RunnerConfinement::open(config, folder.path(), {}));
    around.program = LEATD_BINARY;
    around.directory = folder.path();
    around.node = "w0";
    around.master = "127.0.0.1:1";  // which nothing answers: the runner looks for it meanwhile
    around.cluster = "test";
    around.log_level = "info";
    around.transports = {"shm"};
    around.confinement = confinement.get();
  }

  // Starts a runner, and returns it once its first pulse has come.
  std::unique_ptr<RunnerHandle> start() {
    RunnerOrder order;
    order.job = "job-1";
    order.assembly = 1;
    auto runner = must(RunnerHandle::start(order, around));
    pollfd ready{runner->socket(), POLLIN, 0};
    REQUIRE(::poll(&ready, 1, 20'000) == 1);
    return runner;
  }

  TemporaryDirectory folder;
  std::unique_ptr<RunnerConfinement> confinement;
  RunnerSurroundings around;
};

std::chrono::microseconds median_start(Confine mode) {
  StartScene scene(mode);
  std::vector<std::chrono::microseconds> took;
  for (int i = 0; i < 15; ++i) {
    const auto began = StartClock::now();
    const auto runner = scene.start();
    took.push_back(
        std::chrono::duration_cast<std::chrono::microseconds>(StartClock::now() - began));
  }
  std::nth_element(took.begin(), took.begin() + 7, took.end());
  return took[7];
}

// Gives up a capability for this thread while it lives.
class WithoutCapability {
 public:
  explicit WithoutCapability(int capability) {
    ::syscall(SYS_capget, &header_, before_);
    __user_cap_data_struct less[2] = {before_[0], before_[1]};
    less[0].effective &= ~(1U << capability);
    ::syscall(SYS_capset, &header_, less);
  }
  ~WithoutCapability() { ::syscall(SYS_capset, &header_, before_); }

 private:
  __user_cap_header_struct header_{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct before_[2] = {};
};

// The lines of /proc/PID/status that begin with `key`, without it.
std::string status_of(pid_t process, const std::string& key) {
  const std::string text = contents_of(cat("/proc/", process, "/status"));
  const size_t at = text.find(cat("\n", key, ":"));
  if (at == std::string::npos) return "";
  const size_t from = text.find_first_not_of(" \t", at + key.size() + 2);
  return text.substr(from, text.find('\n', from) - from);
}

bool may_confine() {
  const ConfineAbilities abilities = find_abilities({0, 1});
  return abilities.user.ok() && abilities.namespaces.ok() && abilities.files.ok();
}

}  // namespace

TEST_CASE("two runners of a worker have users of their own, and no rights") {
  if (!may_confine()) return;
  StartScene scene(Confine::required);
  const auto one = scene.start(), other = scene.start();
  CHECK(status_of(one->pid(), "Uid") != status_of(other->pid(), "Uid"));
  for (const pid_t runner : {one->pid(), other->pid()}) {
    CHECK(status_of(runner, "Uid").substr(0, 2) != "0\t");
    for (const char* set : {"CapInh", "CapPrm", "CapEff", "CapAmb"})
      CHECK(status_of(runner, set) == "0000000000000000");
    CHECK(status_of(runner, "NoNewPrivs") == "1");
    CHECK(status_of(runner, "Seccomp") == "2");
    CHECK(status_of(runner, "Groups") == "");
  }
}

TEST_CASE("runners that read as the worker's user have it, with the right to read alone") {
  if (!may_confine()) return;
  StartScene scene(Confine::best_effort, true);
  const auto runner = scene.start();
  CHECK(status_of(runner->pid(), "Uid") == status_of(::getpid(), "Uid"));
  CHECK(status_of(runner->pid(), "CapEff") == "0000000000000004");  // CAP_DAC_READ_SEARCH
  CHECK(status_of(runner->pid(), "Seccomp") == "2");
}

TEST_CASE("a worker that cannot give its runners users does not start, if they are required") {
  if (!may_confine()) return;
  const WithoutCapability narrowed(CAP_SETUID);
  const TemporaryDirectory folder;
  WorkerConfig config;
  config.state_dir = folder.path();
  config.runner.confine = Confine::required;
  const Status refused = RunnerConfinement::open(config, folder.path(), {}).status();
  CHECK(refused.code() == Code::failed_precondition);
  CHECK_THAT(refused.message(),
             Catch::StartsWith("runner.confine: expected 'own user' for runners"));
  CHECK_THAT(refused.message(), Catch::Contains("lacks CAP_SETUID; 'leat doctor' tells"));
  // Beyond loopback, that is the default; on loopback, a runner gives up the rights of root
  // instead.
  config.runner.confine = Confine::automatic;
  config.master = "192.0.2.1:17461";
  CHECK_FALSE(RunnerConfinement::open(config, folder.path(), {}).ok());
  StartScene scene(Confine::automatic);
  const auto runner = scene.start();
  CHECK(status_of(runner->pid(), "Uid") == status_of(::getpid(), "Uid"));
  CHECK(status_of(runner->pid(), "CapEff") == "0000000000000000");
  CHECK(status_of(runner->pid(), "Seccomp") == "2");
}

TEST_CASE("a user comes back when its runner has ended, and there is an error when none is left") {
  if (!may_confine()) return;
  const std::string shared = must(shared_folder());
  RunnerUsers users = must(RunnerUsers::open({299'990, 2}, shared));
  {
    const RunnerUser one = must(users.take()), other = must(users.take());
    CHECK(one.number() != other.number());
    // Another worker of the machine shares the range.
    RunnerUsers others = must(RunnerUsers::open({299'990, 2}, shared));
    const auto none = others.take();
    CHECK(none.status().code() == Code::resource_exhausted);
    CHECK_THAT(none.status().message(), Catch::Contains("from 299990 to 299991, all are in use"));
  }
  CHECK(must(users.take()).number() != 0);
}

TEST_CASE("a confined runner takes some milliseconds more to start") {
  if (!may_confine()) return;
  const auto without = median_start(Confine::insecure_off);
  const auto with = median_start(Confine::required);
  std::cout << "start of a runner, median of 15: " << without.count() << " us, confined "
            << with.count() << " us\n";
  if (times_are_checked()) CHECK(with < without + 100ms);
}

TEST_CASE("the environment of a confined runner has no secrets") {
  for (const char* name : {"PATH", "LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES", "OMP_NUM_THREADS"})
    CHECK(is_for_runner(name, false));
  for (const char* name : {"HOME", "LEAT_WORKER_SECRET_FILE", "CREDENTIALS_DIRECTORY",
                           "SSH_AUTH_SOCK", "AWS_SECRET_ACCESS_KEY", "https_proxy", "DATABASE_URL"})
    CHECK_FALSE(is_for_runner(name, false));
  CHECK(is_for_runner("AWS_SECRET_ACCESS_KEY", true));
  CHECK(is_for_runner("https_proxy", true));
  CHECK_FALSE(is_for_runner("LEAT_WORKER_SECRET_FILE", true));
}

}  // namespace leat
