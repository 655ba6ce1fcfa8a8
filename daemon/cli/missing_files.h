// The check that the files of a job exist, before any work is done for it.
#pragma once

#include "daemon/base/terminal.h"
#include "daemon/spec/job.h"

namespace leat {

// Prints "no such data file: '...'" for the first missing file of the job and returns true; the
// exit code is then kExitNoSuch. Looks at graph, weights and data files on this machine.
bool report_missing_files(const Job& job, ColorMode color);

// The same for the folder of the job's data alone: "no such data root: '...'". A job whose data
// need no folder, or are in a store, misses none.
bool report_missing_root(const Job& job, ColorMode color);

}  // namespace leat
