// A job that goes on from another run's checkpoint, which was submitted with it:
//
//   <submitted>/resume/checkpoints/step-00000500/...
//                      metrics.jsonl                  may be missing
#pragma once

#include <string>

#include "devices/base/files.h"
#include "devices/base/status.h"

namespace leat {

// Puts them into the job's folder, unless it has a checkpoint of its own: true if it has one now.
// Done again after a crash it does the same. invalid_argument if the one that came is damaged.
Result<bool> take_checkpoint(Files& files, const std::string& submitted, const std::string& folder);

}  // namespace leat
