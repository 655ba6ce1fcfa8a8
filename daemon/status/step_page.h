// The page of some steps of a job that trains: its critical path, the time line of its threads, and
// its partitioned graph.
//
// Threads: pure functions.
#pragma once

#include "daemon/status/http.h"
#include "daemon/status/status_source.h"
#include "daemon/traces/recording.h"

namespace leat {

HttpResponse step_page(const JobView& job, const StepRecording& recording);

}  // namespace leat
