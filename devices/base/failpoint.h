// Named places at which a test makes the code fail:
// LEAT_RETURN_IF_ERROR(LEAT_FAILPOINT("journal/commit")).
//
// Failpoints are compiled into the shipped binaries, so that the tested code is the code that runs.
// While none is set, a pass costs one relaxed load.
//
// The table of them belongs to the process. This is the one exception to "no singletons": the
// deepest code must reach its failpoint without a parameter through every layer above it. Nothing
// that the runtime promises depends on the table, and it is empty except in tests and in a job that
// asks for faults.
//
// Threads: any, for everything here. An action runs on the thread that passes, under no lock.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "devices/base/status.h"

namespace leat {

// Decides a pass. `pass` counts the passes of this failpoint from 1. The code goes on if the result
// is ok, and otherwise fails with it.
using FailpointAction = std::function<Status(uint64_t pass)>;

// A failpoint that is set while this object lives. To set one name twice is an error of the test:
// the later object wins while it lives, and after that none is set.
class ScopedFailpoint {
 public:
  ScopedFailpoint(std::string name, FailpointAction action);
  // Fails with `status` at every pass, or at pass number `only` alone if that is not 0.
  ScopedFailpoint(std::string name, Status status, uint64_t only = 0);
  ~ScopedFailpoint();
  ScopedFailpoint(const ScopedFailpoint&) = delete;
  ScopedFailpoint& operator=(const ScopedFailpoint&) = delete;

  // How often the code has passed this place.
  uint64_t passes() const;

 private:
  std::string name_;
  std::shared_ptr<struct Failpoint> failpoint_;
};

// Sets a failpoint for the life of the process, or until the name is set again. A job's chaos uses
// it.
void set_failpoint(std::string name, FailpointAction action);

// Sets failpoints for the life of the process from the text of the environment variable
// LEAT_FAILPOINTS, which is a list of "name=action" separated by ';'. An action is the name of a
// code, with which the pass fails, "delay20ms", or "kill", which sends SIGKILL as a crash does.
// "@N" behind it makes pass N alone act: "checkpoint/rename=kill@3;files/sync=resource_exhausted".
// An error sets none of them.
Status set_failpoints(std::string_view text);
// Calls set_failpoints() with the value of the variable, if it is set. The main functions call it.
Status set_failpoints_of_environment();

// Used by LEAT_FAILPOINT: the number of failpoints that are set, and the pass when there are any.
extern std::atomic<int> failpoints_set;
Status pass_failpoint(std::string_view name);

}  // namespace leat

// The Status of passing the failpoint `name`.
#define LEAT_FAILPOINT(name)                                                      \
  (::leat::failpoints_set.load(std::memory_order_relaxed) == 0 ? ::leat::Status() \
                                                               : ::leat::pass_failpoint(name))
