#include "devices/base/failpoint.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/catch.h"

using namespace leat;

namespace {

Status work() {
  LEAT_RETURN_IF_ERROR(LEAT_FAILPOINT("test/work"));
  return {};
}

}  // namespace

TEST_CASE("a failpoint fails while it is set and never else") {
  CHECK(work().ok());
  {
    ScopedFailpoint failpoint("test/work", unavailable("injected"));
    CHECK(work().code() == Code::unavailable);
    CHECK(work().code() == Code::unavailable);
    CHECK(failpoint.passes() == 2);
  }
  CHECK(work().ok());
  CHECK(failpoints_set.load() == 0);
}

TEST_CASE("a failpoint of another name does not fail this one") {
  ScopedFailpoint other("test/other", unavailable("injected"));
  CHECK(work().ok());
  CHECK(other.passes() == 0);
}

TEST_CASE("a failpoint can act at one pass alone") {
  ScopedFailpoint failpoint("test/work", internal_error("injected"), 2);
  CHECK(work().ok());
  CHECK(work().code() == Code::internal);
  CHECK(work().ok());
}

TEST_CASE("a failpoint can run the test's own code, which may set failpoints") {
  uint64_t last = 0;
  ScopedFailpoint failpoint("test/work", [&](uint64_t pass) {
    ScopedFailpoint inner("test/inner", cancelled("x"));
    last = pass;
    return LEAT_FAILPOINT("test/inner");
  });
  CHECK(work().code() == Code::cancelled);
  CHECK(work().code() == Code::cancelled);
  CHECK(last == 2);
}

TEST_CASE("failpoints from text fail and kill in the process that set them") {
  const pid_t child = ::fork();
  if (child == 0) {
    if (!set_failpoints("test/work=deadline_exceeded@1;test/kill=kill@2").ok()) ::_exit(1);
    if (work().code() != Code::deadline_exceeded || !work().ok()) ::_exit(2);
    if (!LEAT_FAILPOINT("test/kill").ok()) ::_exit(3);
    (void)LEAT_FAILPOINT("test/kill");
    ::_exit(4);
  }
  int state = 0;
  REQUIRE(::waitpid(child, &state, 0) == child);
  REQUIRE(WIFSIGNALED(state));
  CHECK(WTERMSIG(state) == SIGKILL);
}

TEST_CASE("a bad text of failpoints is refused and sets none") {
  for (const char* text : {"x", "=kill", "x=", "x=die", "x=kill@", "x=kill@0", "x=kill@1x", "x=ok",
                           "y=kill;x", ";x=kill"}) {
    const Status status = set_failpoints(text);
    CHECK(status.code() == Code::invalid_argument);
    CHECK(failpoints_set.load() == 0);
  }
  CHECK(set_failpoints("").ok());
  CHECK(set_failpoints("a=die").message() ==
        "failpoint 'a=die': expected 'kill', 'delay20ms' or a code such as 'unavailable', the "
        "action is 'die'");
}
