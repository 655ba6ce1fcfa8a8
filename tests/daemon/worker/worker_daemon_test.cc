// Tests a real worker daemon in this process, with a master that does what the test says and
// runners that are shell scripts.
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "daemon/wire/runner_pulse.h"
#include "daemon/worker/worker.h"
#include "devices/base/text.h"
#include "tests/catch.h"
#include "tests/daemon/worker/wire_fake_master.h"
#include "tests/must.h"
#include "tests/temporary_directory.h"

namespace leat {
namespace {

using namespace std::chrono_literals;

// Returns a runner that does what the test says and reports its identity.
std::string script(const TemporaryDirectory& folder, const std::string& body) {
  const std::string path = folder.path() + "/runner.sh";
  std::ofstream(path) << "#!/bin/sh\n" << body << "\n";
  chmod(path.c_str(), 0700);
  return path;
}

struct Scene {
  explicit Scene(const std::string& body, std::chrono::milliseconds adopt_within = 60s,
                 const std::string& at_once = "") {
    master.start_at_once(at_once);
    WorkerConfig config;
    config.cluster = "test";
    config.name = "w0";
    config.master = master.address();
    config.data = "127.0.0.1:0";
    config.http = "off";
    config.state_dir = folder.path() + "/state";
    config.adopt_within = adopt_within;
    config.runner.confine = Confine::insecure_off;  // a script confines nothing
    auto started = Worker::start(config, script(folder, body), {});
    REQUIRE(started.status().message() == "");
    worker = std::move(*started);
    REQUIRE(master.await("registered w0") != "");
  }

  // Returns the process of a runner that has started.
  pid_t runner() {
    const std::string line = master.await("said job-1: runner ");
    REQUIRE(line != "");
    return std::stoi(line.substr(line.rfind(' ')));
  }
  // The door of the only runner.
  Runners::Door door() {
    const std::filesystem::directory_iterator folder(this->folder.path() + "/state/runners");
    const auto door = worker->runners().door(std::stoull(folder->path().filename().string()));
    REQUIRE(door);
    return *door;
  }
  bool has_folders() { return !std::filesystem::is_empty(folder.path() + "/state/runners"); }

  TemporaryDirectory folder;
  FakeMaster master;
  std::unique_ptr<Worker> worker;
};

bool is_alive(pid_t pid) { return kill(pid, 0) == 0; }

// A runner that says when it is ready for the signal.
constexpr char kWaits[] =
    "trap 'echo bye; exit 3' TERM; echo runner $$; while :; do sleep 0.02; done";

TEST_CASE("a worker registers, beats, and says what its runners say") {
  Scene scene("echo first; echo second; echo third >&2; exit 6");
  CHECK(scene.master.await_beats(5));
  CHECK(scene.worker->status().ok());
  must(scene.master.start("job-1", 4));
  CHECK(scene.master.await("exited job-1") == "exited job-1 4: exited with status 6");
  std::vector<std::string> said;
  for (const std::string& event : scene.master.events()) {
    if (event.starts_with("said")) said.push_back(event);
  }
  REQUIRE(said.size() == 3);
  CHECK(said[1] == "said job-1: second");
  CHECK(said[2] == "said job-1: third");
  CHECK_FALSE(scene.has_folders());
  CHECK(scene.worker->runners().size() == 0);
}

TEST_CASE("a runner may write much without a line's end") {
  Scene scene("head -c 300000 /dev/zero | tr '\\0' x; exit 6");
  must(scene.master.start("job-1", 4));
  CHECK(scene.master.await("exited job-1") == "exited job-1 4: exited with status 6");
  size_t bytes = 0;
  for (const std::string& event : scene.master.events()) {
    if (event.starts_with("said job-1: "))
      bytes += event.size() - std::string("said job-1: ").size();
  }
  CHECK(bytes == 300'000);
  CHECK(scene.master.most_log_bytes() <= 64 << 10);
}

TEST_CASE("a worker whose lines are refused stays a member, with its runners") {
  Scene scene(kWaits);
  scene.master.set_log_answer(invalid_argument("there is no job 'job-1'"));
  must(scene.master.start("job-1", 4));
  CHECK(scene.master.await("refused lines of job-1") == "refused lines of job-1");
  CHECK(scene.master.await_beats(5));
  CHECK(scene.worker->status().ok());
  CHECK(scene.worker->runners().size() == 1);
}

// The worker usually has that runner before its own thread knows that it is registered.
TEST_CASE("a worker that is told to start a runner before it is told that it is registered does") {
  for (int i = 0; i < 5; ++i) {
    Scene scene(kWaits, 60s, "job-1");
    CHECK(scene.master.await("at once: ") == "at once: ");
    const pid_t pid = scene.runner();
    CHECK(scene.master.await_beats(5));
    CHECK(is_alive(pid));
    const auto events = scene.master.events();
    CHECK(std::count_if(events.begin(), events.end(), [](const std::string& event) {
            return event.starts_with("registered");
          }) == 1);
  }
}

TEST_CASE("a runner that is asked to stop may end by itself") {
  Scene scene(kWaits);
  must(scene.master.start("job-1", 1));
  must(scene.master.start("job-1", 1));  // repeated
  CHECK(scene.worker->runners().size() == 1);
  const pid_t pid = scene.runner();
  CHECK(scene.master.stop("job-1", 1, 30s).ok());
  CHECK_FALSE(is_alive(pid));
  CHECK(scene.master.await("exited job-1") == "exited job-1 1: exited with status 3");
  CHECK(scene.master.await("said job-1: bye") != "");
  CHECK(scene.master.stop("job-1", 1, 30s).ok());  // repeated
}

TEST_CASE("a runner goes on in another assembly, and no stop of the one before ends it") {
  Scene scene(kWaits);
  CHECK(scene.master.advance("job-1", 1).code() == Code::failed_precondition);
  must(scene.master.start("job-1", 1));
  const pid_t pid = scene.runner();
  must(scene.master.advance("job-1", 3));
  must(scene.master.advance("job-1", 3));  // repeated
  CHECK(scene.door().assembly == 3);
  CHECK(scene.door().key[0] == 3);
  CHECK(scene.master.advance("job-1", 2).code() == Code::failed_precondition);
  CHECK(scene.master.advance("job-2", 4).code() == Code::failed_precondition);
  CHECK(scene.master.stop("job-1", 2, 0s).ok());
  CHECK(is_alive(pid));
  CHECK(scene.door().assembly == 3);
  SECTION("one of this assembly does") { CHECK(scene.master.stop("job-1", 3, 30s).ok()); }
  SECTION("so does one of an assembly that it has not heard of yet") {
    CHECK(scene.master.stop("job-1", 4, 30s).ok());
  }
  CHECK_FALSE(is_alive(pid));
  CHECK(scene.master.await("exited job-1") == "exited job-1 3: exited with status 3");
}

TEST_CASE("a runner that does not stop is killed, and is gone when the worker says so") {
  Scene scene("trap '' TERM; echo runner $$; while :; do sleep 0.02; done");
  must(scene.master.start("job-1", 1));
  const pid_t pid = scene.runner();
  CHECK(scene.master.stop("job-1", 1, 50ms).ok());
  CHECK_FALSE(is_alive(pid));
  CHECK_FALSE(scene.has_folders());
  CHECK(scene.master.await("exited job-1") == "exited job-1 1: was killed by signal 9");
}

TEST_CASE("an order for a job whose id is none starts nothing") {
  Scene scene(kWaits);
  for (const char* job : {"", "../job-1", "/tmp/job", "job 1", "job\n1"}) {
    INFO(job);
    const Status refused = scene.master.start(job, 1);
    CHECK(refused.code() == Code::invalid_argument);
    CHECK_THAT(refused.message(), Catch::Contains("expected a job's id"));
  }
  CHECK_FALSE(scene.has_folders());
}

TEST_CASE("the death of a runner is told with its signal") {
  Scene scene(kWaits);
  must(scene.master.start("job-1", 1));
  kill(scene.runner(), SIGSEGV);
  CHECK(scene.master.await("exited job-1") == "exited job-1 1: was killed by signal 11");
}

TEST_CASE("a runner that gives no sign of life for 2.5 s is killed") {
  // The first one pulses once and then stops. The others have never pulsed.
  const TemporaryDirectory folder;
  Scene scene(cat("if mkdir ", folder / "first", "; then printf '%0", kPulseBytes - 1,
                  "d\\000' 0 >&3; fi; ", kWaits));
  must(scene.master.start("job-1", 1));
  const pid_t silent = scene.runner();
  must(scene.master.start("job-2", 1));
  must(scene.master.start("job-3", 1));
  const std::string stopped = scene.master.await("said job-2: runner ");
  REQUIRE(scene.master.await("said job-3: runner ") != "");
  REQUIRE(stopped != "");
  kill(std::stoi(stopped.substr(stopped.rfind(' '))), SIGSTOP);
  CHECK(scene.master.await("exited job-1") ==
        "exited job-1 1: gave no sign of life for 2.5 s and was killed");
  CHECK(scene.master.await("exited job-2") ==
        "exited job-2 1: gave no sign of life for 2.5 s, being stopped, and was killed");
  CHECK_FALSE(is_alive(silent));
  CHECK(scene.worker->runners().size() == 1);  // it is slow to start
}

TEST_CASE("a worker whose master hangs up registers again as it was, with its runners") {
  Scene scene(kWaits);
  must(scene.master.start("job-1", 1));
  const pid_t pid = scene.runner();
  const std::string first = scene.master.await("registered w0");
  scene.master.hang_up();
  CHECK(scene.master.await("registered w0") == first);
  CHECK(is_alive(pid));
  must(scene.master.advance("job-1", 2));
}

TEST_CASE("a worker whose master hangs up for too long kills its runners and registers anew") {
  Scene scene(kWaits, 0ms);
  must(scene.master.start("job-1", 1));
  const pid_t pid = scene.runner();
  const std::string first = scene.master.await("registered w0");
  scene.master.hang_up();
  const std::string second = scene.master.await("registered w0");
  REQUIRE(second != "");
  CHECK(second != first);  // another incarnation
  CHECK_FALSE(is_alive(pid));
  must(scene.master.start("job-1", 2));
}

TEST_CASE("a worker that was counted out kills its runners and registers anew") {
  Scene scene(kWaits);
  must(scene.master.start("job-1", 1));
  const pid_t pid = scene.runner();
  const std::string first = scene.master.await("registered w0");
  scene.master.set_beat_answer(failed_precondition("w0 was lost: no heartbeat for 3.0 s"));
  const std::string second = scene.master.await([&](const std::string& event) {
    return event.starts_with("registered w0") && event != first;
  });
  scene.master.set_beat_answer({});
  REQUIRE(second != "");
  CHECK_FALSE(is_alive(pid));
}

TEST_CASE("a worker that is refused says why and tries again") {
  Scene scene(kWaits);
  scene.master.set_registration_answer(failed_precondition("a worker named w0 lives"));
  scene.master.hang_up();
  CHECK(scene.master.await("refused w0") != "");
  scene.master.set_registration_answer({});
  CHECK(scene.master.await("registered w0") != "");
}

TEST_CASE("a worker that stops leaves no process behind") {
  Scene scene(kWaits);
  must(scene.master.start("job-1", 1));
  const pid_t pid = scene.runner();
  scene.worker->stop(30s);
  CHECK_FALSE(is_alive(pid));
  CHECK(scene.master.await("exited job-1") == "exited job-1 1: exited with status 3");
}

TEST_CASE("two workers do not share a state directory") {
  Scene scene(kWaits);
  WorkerConfig config;
  config.data = "127.0.0.1:0";
  config.http = "off";
  config.state_dir = scene.folder.path() + "/state";
  const auto second = Worker::start(config, "/bin/true", {});
  CHECK(second.status().code() == Code::failed_precondition);
  CHECK(second.status().message().find("another worker runs on it") != std::string::npos);
}

}  // namespace
}  // namespace leat
