// The states of a job and how it may go from one to another.
//
//   QUEUED ──► STARTING ──► RUNNING ──► SUCCEEDED
//                  │  ▲        │ ▲
//                  └──┼──► RECOVERING ◄─┐ (tries again)
//                     │        └────────┘
//   STARTING, RUNNING, RECOVERING ──► FAILED, or CANCELLING ──► CANCELLED;  QUEUED ──► CANCELLED
//   STARTING, RUNNING, RECOVERING ──► PAUSING ──► PAUSED ──► QUEUED;  QUEUED ──► PAUSED
//   RUNNING ──► QUEUED, to make way for a job of a higher priority
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
  pausing = 8,  // comes to a fence and saves a checkpoint, then its runners are stopped
  paused = 9,   // has no workers, until a user resumes it
};

inline constexpr std::array<JobState, 10> kJobStates = {
    JobState::queued,     JobState::starting,  JobState::running, JobState::recovering,
    JobState::cancelling, JobState::succeeded, JobState::failed,  JobState::cancelled,
    JobState::pausing,    JobState::paused};

// "QUEUED"
std::string_view name_of(JobState state);
// Of a number from a file; nothing if it is none.
std::optional<JobState> job_state_from_number(int64_t number);

// SUCCEEDED, FAILED and CANCELLED: a job never leaves them.
constexpr bool has_ended(JobState state) {
  return state >= JobState::succeeded && state <= JobState::cancelled;
}

// The job has workers, or is about to get some back.
constexpr bool has_workers(JobState state) {
  return !has_ended(state) && state != JobState::queued && state != JobState::paused;
}

// The table of transitions. A recovering job may begin to recover again.
bool may_become(JobState from, JobState to);

// The state that a restarted master gives to a job in state `state`; nothing if the state stays. A
// job that had runners is recovering: it waits for those that its workers still hold, and gets new
// ones in the places of the others.
std::optional<JobState> state_after_restart(JobState state);

}  // namespace leat
