#include "tests/daemon/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <string_view>

#include "devices/base/text.h"
#include "tests/catch.h"
#include "tests/eventually.h"

namespace leat {
namespace {

std::vector<char*> pointers(std::vector<std::string>& strings) {
  std::vector<char*> out;
  for (std::string& string : strings) out.push_back(string.data());
  out.push_back(nullptr);
  return out;
}

std::string_view name_of(std::string_view entry) { return entry.substr(0, entry.find('=')); }

// Returns this process's environment with `changes`.
std::vector<std::string> environment_with(const std::vector<std::string>& changes) {
  std::vector<std::string> out;
  for (char** entry = ::environ; *entry != nullptr; ++entry) {
    const bool changed = std::any_of(changes.begin(), changes.end(), [&](const auto& change) {
      return name_of(change) == name_of(*entry);
    });
    if (!changed) out.emplace_back(*entry);
  }
  for (const std::string& change : changes) {
    if (!change.ends_with('=')) out.push_back(change);
  }
  return out;
}

int exit_code(int status) {
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace

ChildProcess::ChildProcess(const std::string& binary, const std::vector<std::string>& arguments,
                           const Options& options) {
  const auto file = [](const std::string& path) {
    return path.empty() ? "/dev/null" : path.c_str();
  };
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_addopen(&actions, 1, file(options.out), O_WRONLY | O_CREAT, 0600);
  ::posix_spawn_file_actions_addopen(&actions, 2, file(options.err), O_WRONLY | O_CREAT, 0600);
  if (options.fd_3 >= 0) ::posix_spawn_file_actions_adddup2(&actions, options.fd_3, 3);
  ::posix_spawn_file_actions_addchdir_np(&actions, options.folder.c_str());
  std::vector<std::string> words{binary};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<std::string> environment = environment_with(options.environment);
  const int failed = ::posix_spawn(&pid_, binary.c_str(), &actions, nullptr, pointers(words).data(),
                                   pointers(environment).data());
  ::posix_spawn_file_actions_destroy(&actions);
  REQUIRE(failed == 0);
}

ChildProcess::~ChildProcess() {
  if (pid_ < 0) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

std::string ChildProcess::how_it_ended() const {
  if (pid_ < 0) return "";
  siginfo_t info{};
  const int failed = ::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT);
  if (failed != 0 || info.si_pid == 0) return "";
  return info.si_code == CLD_EXITED ? cat("exit code ", info.si_status)
                                    : cat("signal ", info.si_status, " ended it");
}

void ChildProcess::signal(int number) {
  REQUIRE((pid_ > 0 && ::kill(pid_, number) == 0));
  if (number != SIGSTOP) return;
  REQUIRE(eventually([this] {
    siginfo_t info{};
    const int found =
        ::waitid(P_PID, static_cast<id_t>(pid_), &info, WSTOPPED | WEXITED | WNOHANG | WNOWAIT);
    return found == 0 && info.si_pid == pid_;
  }));
}

std::optional<int> ChildProcess::wait(std::chrono::milliseconds patience) {
  const int handle = static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0));
  REQUIRE(handle >= 0);
  pollfd ended{handle, POLLIN, 0};
  const int ready = ::poll(&ended, 1, static_cast<int>(patience.count()));
  ::close(handle);
  if (ready == 0) return std::nullopt;
  int status = 0;
  REQUIRE(::waitpid(pid_, &status, 0) == pid_);
  pid_ = -1;
  return exit_code(status);
}

std::string contents_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace leat
