#if !defined(LEAT_SANITIZED)  // the sanitizers need calls that a runner must not make
// Tests a runner that a job has taken over: tests/hostile_runner tries a list of things, is
// started in place of `leatd runner` by a worker in this process, and must get at nothing.
#include <fcntl.h>
#include <linux/capability.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <future>
#include <iostream>

#include "daemon/confine/abilities.h"
#include "daemon/worker/worker.h"
#include "devices/base/text.h"
#include "tests/catch.h"
#include "tests/daemon/child_process.h"
#include "tests/daemon/worker/wire_fake_master.h"
#include "tests/eventually.h"
#include "tests/must.h"
#include "tests/temporary_directory.h"

namespace leat {
namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;

// Gives up CAP_SYS_ADMIN for this thread and those that it starts meanwhile, as if it were a worker
// in a container without the right to make namespaces.
class WithoutNamespaces {
 public:
  explicit WithoutNamespaces(bool really) {
    ::syscall(SYS_capget, &header_, before_);
    if (!really) return;
    __user_cap_data_struct less[2] = {before_[0], before_[1]};
    less[0].effective &= ~(1U << CAP_SYS_ADMIN);
    ::syscall(SYS_capset, &header_, less);
  }
  ~WithoutNamespaces() { ::syscall(SYS_capset, &header_, before_); }

 private:
  __user_cap_header_struct header_{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct before_[2] = {};
};

int listening_socket(const std::string& name, bool is_abstract) {
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + (is_abstract ? 1 : 0), name.data(), name.size());
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size() + 1);
  REQUIRE(::bind(fd, reinterpret_cast<sockaddr*>(&address), size) == 0);
  REQUIRE(::listen(fd, 8) == 0);
  if (!is_abstract) ::chmod(name.c_str(), 0666);
  return fd;
}

// The processes of a user, as the kernel lists them.
std::vector<pid_t> processes_of(uint32_t user) {
  std::vector<pid_t> found;
  std::error_code gone;
  for (const auto& each : fs::directory_iterator("/proc", gone)) {
    const int number = std::atoi(each.path().filename().c_str());
    if (number <= 0) continue;
    const std::string status = contents_of(each.path() / "status");
    if (status.find(cat("\nUid:\t", user, "\t")) != std::string::npos) found.push_back(number);
  }
  return found;
}

// A worker in this process, the daemon, with a victim, and places that an attacker would like.
struct HostileScene {
  explicit HostileScene(bool without_namespaces, Confine mode = Confine::required) {
    for (const char* name : {"data", "other", "targets"}) fs::create_directory(folder / name);
    std::ofstream(folder / "data/file") << "these are granted\n";
    std::ofstream(folder / "other/file") << "these are not\n";
    std::ofstream(folder / "secret") << std::string(32, 's');
    // Permissions alone must not be what keeps a runner out of data that it was not granted.
    for (const char* open : {"", "other", "other/file", "data", "data/file", "targets"})
      ::chmod((folder / open).c_str(), 0777);
    ::chmod((folder / "secret").c_str(), 0400);
    ::setenv("LEAT_TEST_SECRET", "of the daemon", 1);
    ::setenv("AWS_SECRET_ACCESS_KEY", "of the daemon", 1);
    shm = cat("/leat-test-", ::getpid());
    shm_file = ::shm_open(shm.c_str(), O_CREAT | O_RDWR, 0666);
    ::fchmod(shm_file, 0666);
    shm_key = 0x1ea7 + ::getpid();
    shm_id = ::shmget(shm_key, 4096, IPC_CREAT | 0666);
    sockets[0] = listening_socket(cat("leat-test-", ::getpid()), true);
    ::mkdir((folder / "sockets").c_str(), 0700);
    sockets[1] = listening_socket(folder / "sockets/daemon", false);
    WorkerConfig config;
    config.cluster = "test";
    config.name = "w0";
    config.master = master.address();
    config.data = "127.0.0.1:0";
    config.http = "off";
    config.state_dir = folder / "state";
    config.datasets = {{"data", folder / "data"}, {"targets", folder / "targets"}};
    config.runner.confine = mode;
    {
      const WithoutNamespaces narrowed(without_namespaces);
      auto started = Worker::start(config, HOSTILE_RUNNER, {});
      REQUIRE(started.status().message() == "");
      worker = std::move(*started);
    }
    REQUIRE(master.await("registered w0") != "");
  }
  ~HostileScene() {
    for (const int fd : sockets) ::close(fd);
    ::close(shm_file);
    ::shm_unlink(shm.c_str());
    ::shmctl(shm_id, IPC_RMID, nullptr);
    ::unsetenv("LEAT_TEST_SECRET");
    ::unsetenv("AWS_SECRET_ACCESS_KEY");
  }

  pid_t pid_of(const std::string& job) {
    std::promise<Result<ProcessView>> promise;
    worker->runners().look(job, 1, [&](auto view) { promise.set_value(std::move(view)); });
    return static_cast<pid_t>(must(promise.get_future().get()).pid);
  }
  // Starts a job, and returns the user of its runner once it has done all that it does.
  uint32_t run(const std::string& job) {
    must(master.start(job, 1));
    const std::string done = master.await(cat("said ", job, ": done as "));
    INFO(text());
    REQUIRE(done != "");
    return static_cast<uint32_t>(std::stoul(done.substr(done.rfind(' ') + 1)));
  }
  // The directory of the only runner.
  std::string runner_folder() {
    for (const std::string& parent :
         {rooms_path("/run/leat", folder / "state"), folder / "state/runners"}) {
      std::error_code none;
      for (const auto& each : fs::directory_iterator(parent, none)) return each.path();
    }
    FAIL("no directory of a runner");
    throw 0;
  }
  std::string text() {
    std::string all;
    for (const std::string& event : master.events()) all += event + "\n";
    return all;
  }

  TemporaryDirectory folder;
  FakeMaster master;
  std::unique_ptr<Worker> worker;
  std::string shm;
  int shm_file = -1, shm_id = -1, sockets[2] = {-1, -1};
  key_t shm_key = 0;
};

// Starts the victim, and writes the places to try for the other job. Returns the victim's process.
pid_t set_targets(HostileScene& scene, const std::string& more = "") {
  const uint32_t victim = scene.run("job-2");
  const pid_t other = scene.pid_of("job-2");
  const int here = 0;
  const std::string folder = scene.runner_folder();
  std::ofstream(scene.folder / "targets/targets")
      << "daemon " << ::getpid() << "\nother " << other << "\naddress "
      << reinterpret_cast<uintptr_t>(&here) << "\nother_user " << victim << "\nother_folder "
      << folder << "\nrooms " << fs::path(folder).parent_path().string() << "\nsecret "
      << scene.folder / "secret"
      << "\nstate " << scene.folder / "state"
      << "\nother_data " << scene.folder / "other"
      << "\nsocket " << scene.folder / "sockets/daemon"
      << "\nabstract leat-test-" << ::getpid() << "\nshm " << scene.shm << "\nshm_key "
      << scene.shm_key << "\n"
      << more;
  return other;
}

// The lines of the runner of job-1.
std::vector<std::string> lines_of_attacker(HostileScene& scene) {
  constexpr std::string_view kSaid = "said job-1: ";
  std::vector<std::string> lines;
  for (const std::string& event : scene.master.events()) {
    if (event.starts_with(kSaid)) lines.push_back(event.substr(kSaid.size()));
  }
  return lines;
}

// Has job-1 try everything against this process and job-2. Returns how many attempts were made.
int expect_no_harm(HostileScene& scene) {
  const pid_t other = set_targets(scene);
  const std::string folder = scene.runner_folder();
  struct stat about {};
  REQUIRE(::stat(folder.c_str(), &about) == 0);
  const uint32_t victim = about.st_uid;
  const uint32_t user = scene.run("job-1");
  CHECK(user != victim);
  CHECK(user != ::getuid());
  int refused = 0;
  for (const std::string& line : lines_of_attacker(scene)) {
    std::cout << "  " << line << "\n";
    CHECK_THAT(line, !Catch::Contains("HAPPENED"));
    CHECK_THAT(line, !Catch::StartsWith("cannot start"));
    if (line.find(": refused (") != std::string::npos) ++refused;
  }
  CHECK_THAT(scene.text(), Catch::Contains("job-1: granted data: these are granted"));
  // It got as far as the socket, and the key of the job is what keeps it out.
  CHECK_THAT(scene.text(), Catch::Contains("the other job's socket: "));
  CHECK_THAT(scene.text(), !Catch::Contains("the other job's socket: \n"));
  CHECK(contents_of(scene.folder / "data/file") == "these are granted\n");
  // The victim lives, and so does the daemon.
  CHECK(::kill(other, 0) == 0);
  // No process of the job outlives it.
  must(scene.master.stop("job-1", 1, 0ms));
  CHECK(scene.master.await("exited job-1") != "");
  CHECK(processes_of(user).empty());
  CHECK_FALSE(processes_of(victim).empty());
  scene.worker.reset();
  CHECK(processes_of(victim).empty());
  CHECK_FALSE(fs::exists(fs::path(folder).parent_path()));
  return refused;
}

bool may_test() {
  const ConfineAbilities abilities = find_abilities({0, 1});
  if (abilities.user.ok() && abilities.files.ok()) return true;
  std::cout << "skipped: " << abilities.user.message() << " " << abilities.files.message() << "\n";
  return false;
}

}  // namespace

TEST_CASE("a hostile runner gets at nothing of others, and does not outlive its job") {
  if (!may_test()) return;
  HostileScene scene(false);
  CHECK(expect_no_harm(scene) >= 110);
  CHECK_THAT(scene.text(), Catch::Contains("layers: confined by own user (70"));
}

TEST_CASE("a hostile runner without namespaces gets at nothing of others, either") {
  if (!may_test()) return;
  HostileScene scene(true);
  CHECK(expect_no_harm(scene) >= 110);
  CHECK_THAT(scene.text(), Catch::Contains("without own root (the worker lacks CAP_SYS_ADMIN)"));
}

// Each attempt has to be one that works where nothing keeps it from it.
TEST_CASE("what the hostile runner tries happens to runners that are not confined") {
  if (!may_test()) return;
  HostileScene scene(false, Confine::insecure_off);
  (void)set_targets(scene, "become 65534\n");
  (void)scene.run("job-1");
  const std::vector<std::string> lines = lines_of_attacker(scene);
  for (const char* attempt : {"read data that are not granted",
                              "list data that are not granted",
                              "reach them by ..",
                              "overwrite granted data",
                              "read /etc/passwd",
                              "write into /tmp",
                              "grow a memory file to 1 PiB",
                              "open a shared memory object",
                              "make a shared memory object",
                              "open System V shared memory",
                              "make a message queue",
                              "connect to an abstract socket",
                              "read /proc/.../cmdline of the daemon",
                              "read /proc/.../stat of the other",
                              "hold the daemon by a descriptor",
                              "see other processes",
                              "make a process",
                              "make a process by clone()",
                              "make a process by clone3()",
                              "outlive its worker",
                              "start threads without an end",
                              "unshare a user namespace",
                              "add a key",
                              "let itself be dumped",
                              "bind a TCP port",
                              "bind a UDP port",
                              "listen on a TCP port",
                              "read a secret of the environment",
                              "read credentials of stores"}) {
    INFO(attempt);
    CHECK(std::find(lines.begin(), lines.end(), cat(attempt, ": HAPPENED")) != lines.end());
  }
  ::unlink("/tmp/leat-hostile");
  ::shm_unlink("/leat-hostile");
  ::syscall(SYS_mq_unlink, "leat-hostile");
}

}  // namespace leat
#endif
