// What the exit code of the `leat` command says; `leat --help` lists them.
#pragma once

#include "devices/base/status.h"

namespace leat {

enum ExitCode : int {
  kExitOk = 0,
  kExitFailed = 1,    // the job failed, or an error that fits no other code
  kExitUsage = 2,     // a wrong flag, a missing argument
  kExitNoSuch = 5,    // no such job file, graph, data file, run or model
  kExitInvalid = 7,   // the job file is wrong, or a graph, weights or data that it names, or asks
                      // for what this build lacks
  kExitSignal = 128,  // plus the signal's number: 130 after Ctrl-C
};

// invalid_argument and unimplemented are 7, the other errors 1.
ExitCode exit_code_of(const Status& status);

}  // namespace leat
