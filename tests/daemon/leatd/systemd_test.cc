// Tests a real daemon with systemd's protocols.
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>

#include "tests/catch.h"
#include "tests/daemon/leatd_process.h"

namespace leat {
namespace {

// The socket that systemd gives a service, and the messages that arrive there.
class NotifySocket {
 public:
  NotifySocket() {
    fd_ = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, path().c_str(), sizeof address.sun_path - 1);
    REQUIRE(::bind(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  }
  ~NotifySocket() { ::close(fd_); }
  NotifySocket(const NotifySocket&) = delete;
  NotifySocket& operator=(const NotifySocket&) = delete;

  std::string path() const { return folder_ / "notify"; }

  // Waits up to 60 s for a message with `text`, and drops others before it. False if none came.
  bool hears(const std::string& text) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (std::chrono::steady_clock::now() < deadline) {
      pollfd readable{fd_, POLLIN, 0};
      if (::poll(&readable, 1, 100) <= 0) continue;
      char message[4096];
      const ssize_t size = ::recv(fd_, message, sizeof message, 0);
      if (size > 0 &&
          std::string(message, static_cast<size_t>(size)).find(text) != std::string::npos) {
        return true;
      }
    }
    return false;
  }

 private:
  TemporaryDirectory folder_;
  int fd_ = -1;
};

std::vector<std::string> lone_worker(const TemporaryDirectory& folder) {
  return {"worker",
          "--http",
          "127.0.0.1:0",
          "--data",
          "127.0.0.1:0",
          "--master",
          "127.0.0.1:1",
          "--state-dir",
          folder / "state",
          "--set",
          "log.file=" + (folder / "log")};
}

TEST_CASE("systemd hears when a daemon is ready, alive, reloaded and stopping") {
  const TemporaryDirectory folder;
  NotifySocket systemd;
  LeatdProcess worker(lone_worker(folder),
                      {"NOTIFY_SOCKET=" + systemd.path(), "WATCHDOG_USEC=400000"});
  CHECK(worker.ready().data != "");
  CHECK(systemd.hears("READY=1\nSTATUS="));
  CHECK(systemd.hears("WATCHDOG=1"));

  std::filesystem::rename(folder / "log", folder / "log.1");
  worker.signal(SIGHUP);
  CHECK(systemd.hears("RELOADING=1\nMONOTONIC_USEC="));
  CHECK(systemd.hears("READY=1"));

  worker.signal(SIGTERM);
  CHECK(systemd.hears("STOPPING=1"));
  CHECK(worker.wait() == 0);
  CHECK_THAT(contents_of(folder / "log.1"), Catch::Contains("worker starts"));
  CHECK_THAT(contents_of(folder / "log"), Catch::Contains("received SIGTERM: stopping"));
  CHECK_THAT(contents_of(folder / "log"), Catch::Contains("worker: stopped"));
  CHECK(worker.log() == "");  // all output is in the file
}

}  // namespace
}  // namespace leat
