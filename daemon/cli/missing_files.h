// Looks for the files that a job names before any work is done for it.
#pragma once

#include "daemon/base/terminal.h"
#include "daemon/spec/job.h"

namespace leat {

// Prints "no such data file '...'" for the first file of the job that is not there, and returns
// true then: the exit code is kExitNoSuch.
bool report_missing_files(const Job& job, ColorMode color);

}  // namespace leat
