// A job that continues from another run's checkpoint, which was submitted with it:
//
//   <submitted>/resume/checkpoints/step-00000500/...
//                      metrics.jsonl                  may be missing
//
// The client attaches these files to its submit, or names a job of the cluster that has them.
//
// Threads: functions that read and write files.
#pragma once

#include <string>
#include <vector>

#include "daemon/jobs/blobs.h"
#include "daemon/jobs/records.h"
#include "devices/base/files.h"
#include "devices/base/status.h"

namespace leat {

struct KeptCheckpoint {
  std::vector<AttachedFile> files;
  std::vector<std::string> passed_over;  // the errors of newer checkpoints
};

// Stores the newest whole checkpoint and the metrics of a job with that folder as files from which
// another job can resume. They are new blobs, so the first job may run on and change its own files.
// failed_precondition if there is no whole checkpoint, with the errors of the damaged ones.
Result<KeptCheckpoint> keep_checkpoint(Files& files, Blobs& blobs, const std::string& job,
                                       const std::string& folder);

// Puts the submitted checkpoint into the job's folder, unless that has a checkpoint already.
// Returns true if the folder has one now. May be repeated after a crash. invalid_argument if the
// submitted checkpoint is damaged.
Result<bool> take_checkpoint(Files& files, const std::string& submitted, const std::string& folder);

}  // namespace leat
