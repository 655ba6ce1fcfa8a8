// The exit codes of the `leat` command; `leat --help` lists them.
#pragma once

#include "devices/base/status.h"

namespace leat {

enum ExitCode : int {
  kExitOk = 0,
  kExitFailed = 1,       // the job failed, or an error that fits no other code
  kExitUsage = 2,        // a wrong flag, a missing argument
  kExitUnreachable = 3,  // the master cannot be reached, or no longer
  kExitRefused = 4,      // the master belongs to another cluster, or refuses the secret
  kExitNoSuch = 5,       // no such job, job file, graph, data file, run or model
  kExitState = 6,        // refused in this state: the job has ended
  kExitInvalid = 7,      // the job file, or a graph, weights or data that it names, is invalid or
                         // needs an operation that this build lacks
  kExitTimeout = 124,    // --timeout has passed
  kExitSignal = 128,     // plus the signal's number: 130 after Ctrl-C
};

// Returns kExitInvalid for invalid_argument and unimplemented, and kExitFailed for other errors.
ExitCode exit_code_of(const Status& status);

}  // namespace leat
