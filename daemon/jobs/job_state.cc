#include "daemon/jobs/job_state.h"

namespace leat {
namespace {

// In the order of JobState, as the rows and columns below.
constexpr std::string_view kStateNames[] = {"QUEUED",     "STARTING",  "RUNNING", "RECOVERING",
                                            "CANCELLING", "SUCCEEDED", "FAILED",  "CANCELLED",
                                            "PAUSING",    "PAUSED"};

// Row: from; column: to.
constexpr bool kMayBecome[10][10] = {
    // que  sta    run    rec    cng    suc    fai    can    png    pau
    {false, true, false, false, false, false, false, true, false, true},     // QUEUED
    {false, false, true, true, true, false, true, false, true, false},       // STARTING
    {true, false, false, true, true, true, true, false, true, false},        // RUNNING
    {false, false, true, true, true, false, true, false, true, false},       // RECOVERING
    {false, false, false, false, false, false, false, true, false, false},   // CANCELLING
    {false, false, false, false, false, false, false, false, false, false},  // SUCCEEDED
    {false, false, false, false, false, false, false, false, false, false},  // FAILED
    {false, false, false, false, false, false, false, false, false, false},  // CANCELLED
    {false, false, false, false, true, true, true, false, false, true},      // PAUSING
    {true, false, false, false, false, false, false, true, false, false},    // PAUSED
};

}  // namespace

std::string_view name_of(JobState state) { return kStateNames[static_cast<size_t>(state)]; }

// A number outside the table is one of a damaged row, or of a newer version.
std::optional<JobState> job_state_from_number(int64_t number) {
  if (number < 0 || number >= static_cast<int64_t>(kJobStates.size())) return std::nullopt;
  return static_cast<JobState>(number);
}

// RowReader::replay() checks each step of a job's history with it.
bool may_become(JobState from, JobState to) {
  return kMayBecome[static_cast<size_t>(from)][static_cast<size_t>(to)];
}

std::optional<JobState> state_after_restart(JobState state) {
  switch (state) {
    case JobState::starting:
    case JobState::running:
    case JobState::recovering:
      return JobState::recovering;
    case JobState::cancelling:
      return JobState::cancelled;
    case JobState::pausing:
      return JobState::paused;
    default:
      return std::nullopt;
  }
}

}  // namespace leat
