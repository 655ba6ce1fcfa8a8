#include "daemon/cli/spawn_program.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>

#include "devices/base/text.h"

extern char** environ;

namespace leat {
namespace {

using Steady = std::chrono::steady_clock;

// How often await_end() looks whether the program has ended.
constexpr std::chrono::milliseconds kEndPoll{5};

sigset_t broken_pipe_alone() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGPIPE);
  return set;
}

}  // namespace

Result<Pipe> open_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0)
    return resource_exhausted(cat("making a pipe failed: ", std::strerror(errno)));
  return Pipe{Descriptor(ends[0]), Descriptor(ends[1])};
}

Result<pid_t> spawn_program(const std::vector<std::string>& words, const ProgramStreams& streams,
                            bool own_group) {
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&actions);
  posix_spawnattr_init(&attributes);
  posix_spawn_file_actions_adddup2(&actions, streams.in, STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, streams.out, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, streams.err, STDERR_FILENO);
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setpgroup(&attributes, 0);
  const int group = own_group ? POSIX_SPAWN_SETPGROUP : 0;
  posix_spawnattr_setflags(
      &attributes, static_cast<short>(group | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF));
  pid_t pid = -1;
  const int error =
      ::posix_spawnp(&pid, arguments[0], &actions, &attributes, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (error == 0) return pid;
  return failed_precondition(std::strerror(error));
}

std::optional<int> await_end(pid_t pid, Steady::time_point until) {
  int how = 0;
  while (true) {
    const pid_t reaped = ::waitpid(pid, &how, WNOHANG);
    if (reaped == pid) return how;
    // The system has no end for a parent that ignores SIGCHLD.
    if (reaped < 0 && errno != EINTR) return 0;
    const auto now = Steady::now();
    if (now >= until) return std::nullopt;
    std::this_thread::sleep_for(std::min<Steady::duration>(kEndPoll, until - now));
  }
}

std::string text_of_end(int how) {
  if (WIFSIGNALED(how)) return cat("signal ", WTERMSIG(how));
  return cat("exit code ", WEXITSTATUS(how));
}

NoBrokenPipeSignal::NoBrokenPipeSignal() {
  const sigset_t broken_pipe = broken_pipe_alone();
  ::pthread_sigmask(SIG_BLOCK, &broken_pipe, &before_);
}

NoBrokenPipeSignal::~NoBrokenPipeSignal() {
  // One that is pending by now would be delivered.
  if (!sigismember(&before_, SIGPIPE)) {
    const sigset_t broken_pipe = broken_pipe_alone();
    const timespec now{};
    (void)::sigtimedwait(&broken_pipe, nullptr, &now);
  }
  ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

}  // namespace leat
