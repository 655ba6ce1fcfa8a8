// How the process of a runner ended.
#pragma once

#include <string>

namespace leat {

struct RunnerEnd {
  std::string how;  // "was killed by signal 9"
  // By its own doing: for want of memory, or by a signal such as SIGSEGV or SIGABRT. All else may
  // have come from outside.
  bool crashed = false;
};

}  // namespace leat
