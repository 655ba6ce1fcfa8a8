// Tests the kernel's limit on a runner's memory, in a process of its own.
#include "daemon/process/memory_bound.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <new>

#include "tests/catch.h"
#include "tests/daemon/child_process.h"
#include "tests/daemon/runner/runner_testing.h"

namespace leat::testing {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr int kOk = 0, kNotBounded = 1, kTooTight = 2, kNotAllowed = 3;

bool maps(uint64_t bytes) {
  void* const data =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) return false;
  ::munmap(data, bytes);
  return true;
}

std::string data_size(const std::string& limits) {
  return limits.substr(limits.find("Max data size"), 40);
}

// Returns how a child ends that calls the function.
template <typename F>
int exit_status_of(F does) {
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) ::_exit(does());
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  return WEXITSTATUS(status);
}

int try_bound() {
  const auto bound = MemoryBound::set(64 * kMiB, 2);
  if (!bound.ok() || maps(4096 * kMiB)) return kNotBounded;
  if (!maps(200 * kMiB)) return kTooTight;
  return bound->allow_copies(4096 * kMiB).ok() && maps(4096 * kMiB) ? kOk : kNotAllowed;
}

}  // namespace

TEST_CASE("the kernel bounds a process to its limit and what belongs to it") {
  CHECK(exit_status_of(try_bound) == kOk);
}

// A sanitizer's allocator ends the process in its own way.
#if !defined(LEAT_SANITIZED)
TEST_CASE("a process that gets no more memory ends with the status that says so") {
  CHECK(exit_status_of([] {
          end_when_out_of_memory();
          if (!MemoryBound::set(64 * kMiB, 2).ok()) return kNotBounded;
          ::operator delete(::operator new(4096 * kMiB));
          return kOk;
        }) == kRunnerOutOfMemory);
}
#endif

TEST_CASE("a runner's process is bounded if its worker has a memory_limit") {
  const MirroredJob job;
  RunnerTestOptions options;
  options.runners = 1;
  options.processes = true;
  for (const uint64_t limit : {uint64_t{0}, 512 * kMiB}) {
    options.memory_limit = limit;
    RunnerTestCluster cluster(options);
    const std::string own = data_size(contents_of("/proc/self/limits"));
    CHECK((data_size(cluster.limits_of(0)) != own) == (limit > 0));
  }
}

}  // namespace leat::testing
