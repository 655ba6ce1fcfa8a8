// A recording in the format of Chrome's trace viewer, which Perfetto reads, too.
#pragma once

#include <string>

#include "daemon/traces/recording.h"

namespace leat {

// Returns one JSON object with "traceEvents". A process is a device, and its name the worker's; a
// thread is a compute thread of it, which has a slice for each node that it ran, with op, type and
// step. A transfer is a slice at its sender and one at its receiver, with an arrow between them.
// `otherData` has the clock's error. Times are microseconds from the first event; events are in the
// order of their times.
std::string chrome_trace(const StepRecording& recording);

}  // namespace leat
