#include "tests/daemon/leatd_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "tests/catch.h"

namespace leat {
namespace {

constexpr std::chrono::seconds kLongestStart{60};
constexpr std::chrono::seconds kLongestStop{60};  // the daemon's own deadline is 20 s

// Reads until a newline, the end of the file or the deadline.
std::string read_line(int fd, std::chrono::milliseconds patience) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  std::string line;
  while (!line.ends_with('\n')) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    pollfd readable{fd, POLLIN, 0};
    if (left.count() <= 0 || ::poll(&readable, 1, static_cast<int>(left.count())) <= 0) break;
    char byte = 0;
    if (::read(fd, &byte, 1) != 1) break;
    line += byte;
  }
  return line;
}

}  // namespace

Finished run_leatd(const std::string& folder, const std::vector<std::string>& arguments,
                   const std::vector<std::string>& environment) {
  return run_program(LEATD_BINARY, folder, arguments, environment);
}

LeatdProcess::LeatdProcess(std::vector<std::string> arguments,
                           const std::vector<std::string>& environment) {
  int ends[2];
  REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
  ready_fd_ = ends[0];
  arguments.insert(arguments.end(), {"--ready-fd", "3"});
  child_.emplace(LEATD_BINARY, arguments,
                 ChildProcess::Options{.folder = folder_.path(),
                                       .environment = environment,
                                       .out = folder_ / "out",
                                       .err = folder_ / "err",
                                       .fd_3 = ends[1]});
  ::close(ends[1]);
}

LeatdProcess::~LeatdProcess() { ::close(ready_fd_); }

const LeatdProcess::Ready& LeatdProcess::ready() {
  if (ready_) return *ready_;
  const std::string line = read_line(ready_fd_, kLongestStart);
  INFO("the line '" << line << "' and the log:\n" << log());
  const auto json = nlohmann::json::parse(line, nullptr, false);
  REQUIRE(json.is_object());
  ready_ = Ready{json.value("listen", ""), json.value("http", ""), json.value("data", ""),
                 json.value("pid", int64_t{0})};
  CHECK(ready_->pid == child_->pid());
  return *ready_;
}

std::string LeatdProcess::log() const {
  const std::string ended = child_->how_it_ended();
  return contents_of(folder_ / "err") + (ended.empty() ? "" : "(" + ended + ")\n");
}

int LeatdProcess::stop() {
  child_->signal(SIGTERM);
  return wait();
}

int LeatdProcess::wait() {
  const auto code = child_->wait(kLongestStop);
  INFO("the log:\n" << log());
  REQUIRE(code.has_value());
  return *code;
}

}  // namespace leat
