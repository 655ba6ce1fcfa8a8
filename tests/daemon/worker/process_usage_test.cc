#include "daemon/worker/process_usage.h"

#include <sys/prctl.h>
#include <unistd.h>

#include <chrono>
#include <string>

#include "tests/catch.h"

using namespace leat;

TEST_CASE("the use of this process grows with its work") {
  const WorkerUsage before = usage_of(::getpid());
  CHECK(before.resident_bytes > 1 << 20);
  WorkerUsage now = before;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (now.cpu_ms < before.cpu_ms + 50 && std::chrono::steady_clock::now() < deadline)
    now = usage_of(::getpid());
  CHECK(now.cpu_ms >= before.cpu_ms + 50);
}

TEST_CASE("a process that is not there uses nothing") {
  const WorkerUsage usage = usage_of(0);
  CHECK(usage.cpu_ms == 0);
  CHECK(usage.resident_bytes == 0);
  CHECK(state_of(0) == '?');
}

TEST_CASE("the state of a process is read behind any name") {
  CHECK(state_of(::getpid()) == 'R');  // the thread that asks runs
  std::string before(16, '\0');
  ::prctl(PR_GET_NAME, before.data());
  ::prctl(PR_SET_NAME, "a) T (b");
  const char state = state_of(::getpid());
  ::prctl(PR_SET_NAME, before.c_str());
  CHECK(state == 'R');
}
