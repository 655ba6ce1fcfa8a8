// Looks at what runs do on their runners: for `leat why`, and to record steps.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/remote/remote_host.h"
#include "daemon/traces/recording.h"
#include "daemon/wire/run_part.h"
#include "daemon/wire/run_standing.h"
#include "devices/base/status.h"
#include "scheduler/plan/plan.h"

namespace leat {

// A partition of a run, as its runner describes it.
struct RunLook {
  RunPart part;
  std::shared_ptr<const Plan> plan;
  std::string name;     // of the run: "train"; empty before it is connected
  bool trains = false;  // its steps are the job's
  bool connected = false;
  uint64_t first_step = 0;  // the job's step of turn 0
  Status answer;            // why there is no standing
  RunStanding standing;
  // The master's steady clock is the runner's plus `clock_offset`, exact to `clock_error`, in
  // nanoseconds.
  int64_t clock_offset = 0, clock_error = 0;
};

// Of RemoteHost::inspect().
inline constexpr std::string_view kInspectingData = "inspecting the data";
// Of RemoteHost::write_snapshot().
inline constexpr std::string_view kWritingSnapshot = "writing a snapshot";

// A call to a runner that is not answered yet.
struct PendingCall {
  // "preparing"; kInspectingData while the runner reads files, kWritingSnapshot while it writes one
  std::string doing;
  std::chrono::milliseconds since{0};
};

struct RunnerLook {
  RunnerFacts facts;
  std::vector<PendingCall> calls;
  std::vector<RunLook> runs;
  bool answers = false;  // it answered one of the questions
};

// Asks all runners at once, and returns in the order of `hosts`. A runner without runs is asked for
// a sign of life. Blocks for `deadline` at most. Threads: any but the loop's.
std::vector<RunnerLook> look_at_runs(std::span<const std::shared_ptr<RemoteHost>> hosts,
                                     std::chrono::milliseconds deadline);

// Records the next `steps` steps of the run that trains, on all runners, and returns when they are
// done or at `deadline`, with the steps that are done by then. If a runner begins so late that it
// has none of them as a whole, it records the steps after them. The times are of this process'
// steady clock. failed_precondition if no run trains, deadline_exceeded if no step was done in
// time; the error of a runner that is lost meanwhile. Blocks. Threads: any but the loop's.
Result<StepRecording> record_steps(std::span<const std::shared_ptr<RemoteHost>> hosts,
                                   uint64_t steps, std::chrono::steady_clock::time_point deadline);

}  // namespace leat
