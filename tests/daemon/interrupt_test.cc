#include "daemon/cli/interrupt.h"

#include <sys/wait.h>
#include <unistd.h>

#include "tests/catch.h"

namespace leat {
namespace {

// The exit status of a child that gets the signals one after another.
int child_exit(int first, int second) {
  const pid_t child = ::fork();
  if (child == 0) {
    const Interrupt interrupt;
    ::raise(first);
    if (!interrupt.requested()) ::_exit(1);
    if (second != 0) ::raise(second);
    ::_exit(0);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  return WEXITSTATUS(status);
}

TEST_CASE("the first signal is a flag") {
  for (const int signal : {SIGINT, SIGTERM}) {
    const Interrupt interrupt;
    CHECK_FALSE(interrupt.requested());
    ::raise(signal);
    CHECK(interrupt.requested());
    CHECK(interrupt.signal() == signal);
    CHECK(interrupt.exit_code() == (signal == SIGINT ? 130 : 143));
  }
  CHECK(child_exit(SIGINT, 0) == 0);
}

TEST_CASE("the second signal ends the process at once") {
  CHECK(child_exit(SIGINT, SIGINT) == 130);
  CHECK(child_exit(SIGINT, SIGTERM) == 143);
  CHECK(child_exit(SIGTERM, SIGINT) == 130);
}

TEST_CASE("the handlers that were there come back") {
  struct sigaction before {
  }, after{};
  ::sigaction(SIGINT, nullptr, &before);
  { const Interrupt interrupt; }
  ::sigaction(SIGINT, nullptr, &after);
  CHECK(after.sa_handler == before.sa_handler);
}

}  // namespace
}  // namespace leat
