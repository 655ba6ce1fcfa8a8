// What the exit code of the `leat` command says; `leat --help` lists them.
#pragma once

#include "devices/base/status.h"

namespace leat {

enum ExitCode : int {
  kExitOk = 0,
  kExitFailed = 1,       // the job failed, or an error that fits no other code
  kExitUsage = 2,        // a wrong flag, a missing argument
  kExitUnreachable = 3,  // there is no master, or no more
  kExitRefused = 4,      // the master is another cluster's, or does not accept the secret
  kExitNoSuch = 5,       // no such job, job file, graph, data file, run or model
  kExitState = 6,        // refused in this state: the job has ended
  kExitInvalid = 7,    // the job file is wrong, or a graph, weights or data that it names, or asks
                       // for what this build lacks
  kExitTimeout = 124,  // --timeout has passed
  kExitSignal = 128,   // plus the signal's number: 130 after Ctrl-C
};

// invalid_argument and unimplemented are 7, the other errors 1.
ExitCode exit_code_of(const Status& status);

}  // namespace leat
