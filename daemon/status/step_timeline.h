// Draws what each thread of a job's devices did in recorded steps.
//
// Threads: pure functions.
#pragma once

#include <string>
#include <string_view>

#include "daemon/traces/recording.h"

namespace leat {

// The HTML of a picture with a lane for each thread, and a line for each transfer from its sender
// to its reader. Times run from left to right. Events too short to be seen are drawn as one with
// their neighbours of the same kind; if there are very many, with any neighbours. The picture has
// at most 20,000 bars and 512 lanes. "" if no step was recorded on all devices.
std::string step_timeline(const StepRecording& recording);
// The script with which a click, or the arrow keys, choose a bar and show its text below.
extern const std::string_view kTimelineScript;

}  // namespace leat
