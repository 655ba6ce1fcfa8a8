// Named places at which a test makes the code fail:
// LEAT_RETURN_IF_ERROR(LEAT_FAILPOINT("journal/commit")).
//
// They are compiled into what ships, so that what is tested is what runs; while none is set, a pass
// costs one relaxed load. The table is process-wide, the one exception to "no singletons": a
// failpoint must be reachable from the deepest code without a parameter through every layer that
// has nothing to do with it, nothing that the runtime promises reads it, and it is empty but in
// tests and where a job brings faults upon itself.
//
// Threads: all of it, from any thread. An action runs on the thread that passes, under no lock.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "devices/base/status.h"

namespace leat {

// What happens at a pass. `pass` counts from 1. ok: the code goes on.
using FailpointAction = std::function<Status(uint64_t pass)>;

// A failpoint that is set as long as this object lives. Setting a name twice is an error of the
// test: the later one wins while it lives, then none is set.
class ScopedFailpoint {
 public:
  ScopedFailpoint(std::string name, FailpointAction action);
  // Fails with `status` at every pass, or only at pass number `only` if that is not 0.
  ScopedFailpoint(std::string name, Status status, uint64_t only = 0);
  ~ScopedFailpoint();
  ScopedFailpoint(const ScopedFailpoint&) = delete;
  ScopedFailpoint& operator=(const ScopedFailpoint&) = delete;

  // How often the place was passed.
  uint64_t passes() const;

 private:
  std::string name_;
  std::shared_ptr<struct Failpoint> failpoint_;
};

// For the life of the process, or until the name is set again: for a job's chaos.
void set_failpoint(std::string name, FailpointAction action);

// Sets failpoints for the life of the process, from the text of the environment variable
// LEAT_FAILPOINTS: "name=action" separated by ';'. The action is the name of a
// code (the pass fails with it) or "kill" (SIGKILL to this process: a crash), with "@N" after it to
// act at pass N alone: "checkpoint/rename=kill@3;files/sync=resource_exhausted". All or nothing.
Status set_failpoints(std::string_view text);
// What main calls: with the variable's text, if it is set.
Status set_failpoints_of_environment();

// For LEAT_FAILPOINT: how many failpoints are set, and what a pass does when any is.
extern std::atomic<int> failpoints_set;
Status pass_failpoint(std::string_view name);

}  // namespace leat

#define LEAT_FAILPOINT(name)                                                      \
  (::leat::failpoints_set.load(std::memory_order_relaxed) == 0 ? ::leat::Status() \
                                                               : ::leat::pass_failpoint(name))
