#include "daemon/leatd/first_process.h"

#include <linux/close_range.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <optional>

#include "daemon/leatd/run_leatd.h"
#include "devices/base/text.h"

namespace leat {
namespace {

// The signals by which people and the system ask a daemon for something.
constexpr std::array kHandedOn = {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGQUIT};

// The exit code that a shell would show for this status of wait().
int exit_code_of(int status) {
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

// Takes the exit status of every child that has ended. Returns that of `daemon`, if it has ended.
std::optional<int> reap(pid_t daemon) {
  std::optional<int> ended;
  int status = 0;
  for (pid_t pid; (pid = ::waitpid(-1, &status, WNOHANG)) > 0;) {
    if (pid == daemon) ended = status;
  }
  return ended;
}

// The loop of process 1. `signals` are blocked. Returns the daemon's exit code.
int attend(pid_t daemon, const sigset_t& signals) {
  ::prctl(PR_SET_NAME, "leatd-first");
  ::close_range(3, ~0U, 0);  // else the reader of --ready-fd would see no end
  while (true) {
    const int signal = ::sigwaitinfo(&signals, nullptr);
    if (signal < 0) continue;  // interrupted
    if (signal != SIGCHLD) {
      // The number of the child stays its own until reap() has taken its status, so no other
      // process gets the signal.
      ::kill(daemon, signal);
    } else if (const auto ended = reap(daemon)) {
      return exit_code_of(*ended);
    }
  }
}

}  // namespace

int run_as_first_process(const std::function<int()>& program) {
  if (::getpid() != 1) return program();
  sigset_t signals, before;
  sigemptyset(&signals);
  for (const int signal : kHandedOn) sigaddset(&signals, signal);
  sigaddset(&signals, SIGCHLD);
  // Blocked before the fork: process 1 ignores signals without a handler, and one that comes early
  // must not be lost.
  ::sigprocmask(SIG_BLOCK, &signals, &before);
  const pid_t daemon = ::fork();
  if (daemon > 0) return attend(daemon, signals);
  const int error = errno;
  ::sigprocmask(SIG_SETMASK, &before, nullptr);
  if (daemon < 0) {
    complain(cat("process 1 runs the daemon itself, and takes no exit status of others: ",
                 std::strerror(error)));
  }
  return program();
}

}  // namespace leat
