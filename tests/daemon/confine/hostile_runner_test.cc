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
  explicit HostileScene(bool without_namespaces) {
    for (const char* name : {"data", "other", "targets"}) fs::create_directory(folder / name);
    std::ofstream(folder / "data/file") << "these are granted\n";
    std::ofstream(folder / "other/file") << "these are not\n";
    std::ofstream(folder / "secret") << std::string(32, 's');
    // Permissions alone must not be what keeps a runner out of data that it was not granted.
    for (const char* open : {"", "other", "other/file"}) ::chmod((folder / open).c_str(), 0777);
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
    config.runner.confine = Confine::required;
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

// Has job-1 try everything against this process and job-2. Returns how many attempts were made.
int expect_no_harm(HostileScene& scene) {
  const uint32_t victim = scene.run("job-2");
  const pid_t other = scene.pid_of("job-2");
  const std::string folder = fs::read_symlink(cat("/proc/", other, "/cwd")).string();
  std::string rooms;
  for (const auto& each : fs::recursive_directory_iterator("/run/leat/rooms")) {
    struct stat about {};
    if (::stat(each.path().c_str(), &about) == 0 && about.st_uid == victim &&
        S_ISDIR(about.st_mode))
      rooms = each.path().parent_path();
  }
  REQUIRE(rooms != "");
  const int here = 0;
  std::ofstream(scene.folder / "targets/targets")
      << "daemon " << ::getpid() << "\nother " << other << "\naddress "
      << reinterpret_cast<uintptr_t>(&here) << "\nother_user " << victim << "\nother_folder "
      << folder << "\nrooms " << rooms << "\nsecret " << scene.folder / "secret"
      << "\nstate " << scene.folder / "state"
      << "\nother_data " << scene.folder / "other"
      << "\nsocket " << scene.folder / "sockets/daemon"
      << "\nabstract leat-test-" << ::getpid() << "\nshm " << scene.shm << "\nshm_key "
      << scene.shm_key << "\n";
  const uint32_t user = scene.run("job-1");
  CHECK(user != victim);
  CHECK(user != ::getuid());
  int refused = 0;
  for (const std::string& event : scene.master.events()) {
    if (!event.starts_with("said job-1: ")) continue;
    const std::string line = event.substr(std::string("said job-1: ").size());
    std::cout << "  " << line << "\n";
    CHECK_THAT(line, !Catch::Contains("HAPPENED"));
    CHECK_THAT(line, !Catch::StartsWith("cannot start"));
    if (line.find(": refused (") != std::string::npos) ++refused;
  }
  CHECK_THAT(scene.text(), Catch::Contains("job-1: granted data: these are granted"));
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
  CHECK_FALSE(fs::exists(rooms));
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
  CHECK_THAT(scene.text(), Catch::Contains("layers: confined by own user (2"));
}

TEST_CASE("a hostile runner without namespaces gets at nothing of others, either") {
  if (!may_test()) return;
  HostileScene scene(true);
  CHECK(expect_no_harm(scene) >= 110);
  CHECK_THAT(scene.text(), Catch::Contains("without own root (the worker lacks CAP_SYS_ADMIN)"));
}

}  // namespace leat
#endif
