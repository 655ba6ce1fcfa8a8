#include "daemon/process/memory_bound.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <new>
#include <string>

#include "devices/base/text.h"
#include "transport/io/descriptor.h"

namespace leat {
namespace {

constexpr uint64_t kRest = uint64_t{256} << 20;
constexpr uint64_t kCopies = 6;         // of the variables, at a time
constexpr uint64_t kOtherThreads = 32;  // control, network, checkpoints, reading
constexpr uint64_t kLargestStack = uint64_t{8} << 20;
constexpr uint64_t kLargestLimit = uint64_t{1} << 60;  // so that sums fit

// Must not allocate, because there is no memory left.
[[noreturn]] void end_without_memory() {
  constexpr char kLine[] = "runner: ran out of memory, and ends\n";
  (void)!::write(STDERR_FILENO, kLine, sizeof kLine - 1);
  ::_exit(kRunnerOutOfMemory);
}

// The handler for exceptions that nothing catches. A bad_alloc of code that does not use `new`'s
// handler ends the process like one that does.
[[noreturn]] void end_by_exception() {
  try {
    if (const auto thrown = std::current_exception()) std::rethrow_exception(thrown);
  } catch (const std::bad_alloc&) {
    end_without_memory();
  } catch (const std::exception& error) {
    (void)!::write(STDERR_FILENO, error.what(), std::char_traits<char>::length(error.what()));
    (void)!::write(STDERR_FILENO, "\n", 1);
  }
  std::abort();
}

// The bytes that count against RLIMIT_DATA now.
Result<uint64_t> counted_by_kernel() {
  std::ifstream in("/proc/self/status");
  std::string line;
  while (std::getline(in, line)) {
    if (line.starts_with("VmData:")) return std::stoull(line.substr(7)) * 1024;
  }
  return unavailable("/proc/self/status: expected a line VmData, found none");
}

// Sets the soft limit, so that it can rise later, but no further than the hard limit allows.
Status set_bound(uint64_t bytes) {
  rlimit limit{};
  ::getrlimit(RLIMIT_DATA, &limit);
  limit.rlim_cur = std::min<uint64_t>(bytes, limit.rlim_max);
  if (::setrlimit(RLIMIT_DATA, &limit) == 0) return {};
  return system_error("bounding the memory of the process", errno);
}

}  // namespace

void end_when_out_of_memory() {
  std::set_new_handler(end_without_memory);
  std::set_terminate(end_by_exception);
}

Result<MemoryBound> MemoryBound::set(uint64_t limit, int threads) {
  rlimit stack{};
  ::getrlimit(RLIMIT_STACK, &stack);
  // A larger limit of the stack counts as 8 MiB, because an unlimited one would leave no bound.
  const uint64_t of_thread = std::min<uint64_t>(stack.rlim_cur, kLargestStack);
  LEAT_ASSIGN_OR_RETURN(const uint64_t now, counted_by_kernel());
  // Twice the limit: once for what the runner counts, and once for plans and messages in transit.
  const uint64_t bytes = now + 2 * std::min(limit, kLargestLimit) + kRest +
                         (kOtherThreads + static_cast<uint64_t>(threads)) * of_thread;
  LEAT_RETURN_IF_ERROR(set_bound(bytes));
  return MemoryBound(bytes);
}

Status MemoryBound::allow_copies(uint64_t variables) const {
  return set_bound(without_copies_ + kCopies * std::min(variables, kLargestLimit));
}

}  // namespace leat
