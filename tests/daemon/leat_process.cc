#include "tests/daemon/leat_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <iterator>
#include <sstream>

#include "tests/catch.h"
#include "tests/temporary_directory.h"

namespace leat {
namespace {

constexpr int kLongestMs = 60'000;

std::vector<char*> pointers(std::vector<std::string>& strings) {
  std::vector<char*> out;
  for (std::string& string : strings) out.push_back(string.data());
  out.push_back(nullptr);
  return out;
}

// This process's environment, with `failpoints` in place of its own.
std::vector<std::string> environment_with(const std::string& failpoints) {
  std::vector<std::string> out;
  for (char** entry = ::environ; *entry != nullptr; ++entry) {
    if (std::strncmp(*entry, "LEAT_FAILPOINTS=", 16) != 0) out.emplace_back(*entry);
  }
  if (!failpoints.empty()) out.push_back("LEAT_FAILPOINTS=" + failpoints);
  return out;
}

int wait_or_kill(pid_t pid) {
  const int handle = static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
  if (handle >= 0) {
    pollfd ended{handle, POLLIN, 0};
    if (::poll(&ended, 1, kLongestMs) == 0) ::kill(pid, SIGKILL);
    ::close(handle);
  }
  int status = 0;
  REQUIRE(::waitpid(pid, &status, 0) == pid);
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

std::string contents(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace

std::vector<std::string> Finished::errors() const {
  constexpr std::string_view kStart = "leat: error: ";
  std::vector<std::string> out;
  std::istringstream lines(err);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(kStart)) out.push_back(line.substr(kStart.size()));
  }
  return out;
}

// Into files and not pipes: nobody has to read while it runs.
Finished run_leat(const std::string& folder, const std::vector<std::string>& arguments,
                  const std::string& failpoints) {
  const TemporaryDirectory captured;
  const std::string out = captured / "out", err = captured / "err";
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_addopen(&actions, 1, out.c_str(), O_WRONLY | O_CREAT, 0600);
  ::posix_spawn_file_actions_addopen(&actions, 2, err.c_str(), O_WRONLY | O_CREAT, 0600);
  ::posix_spawn_file_actions_addchdir_np(&actions, folder.c_str());
  std::vector<std::string> words{LEAT_BINARY};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<std::string> environment = environment_with(failpoints);
  pid_t pid = 0;
  const int failed = ::posix_spawn(&pid, LEAT_BINARY, &actions, nullptr, pointers(words).data(),
                                   pointers(environment).data());
  ::posix_spawn_file_actions_destroy(&actions);
  REQUIRE(failed == 0);
  Finished finished;
  finished.exit_code = wait_or_kill(pid);
  finished.out = contents(out);
  finished.err = contents(err);
  return finished;
}

}  // namespace leat
