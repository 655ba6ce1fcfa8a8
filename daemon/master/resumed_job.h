// A job that goes on from another run's checkpoint, which was submitted with it:
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
  std::vector<std::string> passed_over;  // what is wrong with newer ones
};

// Makes the newest checkpoint that is whole, and the metrics, of a job with that folder files for
// another one to go on from. They are blobs of their own: what becomes of the job's is of no
// consequence, it may be running. failed_precondition if there is none, with what is wrong with
// those that there are.
Result<KeptCheckpoint> keep_checkpoint(Files& files, Blobs& blobs, const std::string& job,
                                       const std::string& folder);

// Puts what came into the job's folder, unless it has a checkpoint of its own: true if it has one
// now. Done again after a crash it does the same. invalid_argument if the one that came is damaged.
Result<bool> take_checkpoint(Files& files, const std::string& submitted, const std::string& folder);

}  // namespace leat
