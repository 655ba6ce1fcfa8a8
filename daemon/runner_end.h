// How the process of a runner ended.
#pragma once

#include <string>

namespace leat {

struct RunnerEnd {
  std::string how;  // "was killed by signal 9"
  // By a signal that programs bring upon themselves, such as SIGSEGV or SIGABRT. All else may have
  // come from outside.
  bool crashed = false;
};

}  // namespace leat
