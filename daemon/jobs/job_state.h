// The states of a job and how it may go from one to another.
//
//   QUEUED ──► STARTING ──► RUNNING ──► SUCCEEDED
//                  │  ▲        │ ▲
//                  └──┼──► RECOVERING ◄─┐ (tries again)
//                     │        └────────┘
//   STARTING, RUNNING, RECOVERING ──► FAILED, or CANCELLING ──► CANCELLED;  QUEUED ──► CANCELLED
//
// Threads: pure functions.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "devices/base/status.h"

namespace leat {

// The numbers are in the journal: never change one.
enum class JobState : uint8_t {
  queued = 0,      // waits for workers
  starting = 1,    // has workers; their runners are being started
  running = 2,     // all runners are there
  recovering = 3,  // lost runners, and gets others in their place
  cancelling = 4,  // its runners are being stopped
  succeeded = 5,
  failed = 6,
  cancelled = 7,
};

inline constexpr std::array<JobState, 8> kJobStates = {
    JobState::queued,     JobState::starting,  JobState::running, JobState::recovering,
    JobState::cancelling, JobState::succeeded, JobState::failed,  JobState::cancelled};

// "QUEUED"
std::string_view name_of(JobState state);
// Of a number from a file; nothing if it is none.
std::optional<JobState> job_state_from_number(int64_t number);

// The last three: a job never leaves them.
constexpr bool has_ended(JobState state) { return state >= JobState::succeeded; }

// The table of transitions. A recovering job may begin to recover again.
bool may_become(JobState from, JobState to);

// The state that a restarted master gives to a job in state `state`; nothing if the state stays. A
// job that had runners is recovering: it waits for those that its workers still hold, and gets new
// ones in the places of the others.
std::optional<JobState> state_after_restart(JobState state);

}  // namespace leat
