// The faults that a job causes in itself: the entries of `leat submit --chaos`, and the schedule
// that follows from them. The schedule is a pure function of the entries and of the job's number of
// workers.
//
//   kill=worker:1@step=700            SIGKILL
//   stop=worker:2@step=300,for=5s     SIGSTOP, and after the time SIGCONT
//   term=master@time=10s              SIGTERM
//   exit=runner:1@step=9              exits with status 1
//   hang=runner:0@step=9              a kernel that does not return
//   corrupt=runner:1@step=9           changes a bit of the next bytes that it sends to a peer
//   slow=master@step=9,for=5s         each write to its disk takes 100 ms longer
//   flip=weight:1@step=9              changes a bit of a variable in the memory of its runner
//   flip=gradient:1@step=9            the same of a gradient, in the next step that is audited
//   seed=7,every=15s                  random ones of these, one in each 15 s, or in each so many
//   seed=7,every=200,count=5          steps
//
// `worker:1` is the whole worker that has task 1 of the job, with the job's runner; `runner:1`,
// `weight:1` and `gradient:1` are only the job's process there. A step is a number of steps that
// are done; a time is measured from the job's first run.
//
// Threads: pure functions.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "devices/base/status.h"

namespace leat {

enum class ChaosAction : uint8_t { kill, stop, term, exit, hang, corrupt, slow, flip };
enum class ChaosTarget : uint8_t { worker, runner, master, weight, gradient };

// One fault of the schedule.
struct ChaosFault {
  ChaosAction action = ChaosAction::kill;
  ChaosTarget target = ChaosTarget::worker;
  uint32_t task = 0;                   // of any target but the master
  uint64_t step = 0;                   // 0: at `time` instead
  std::chrono::milliseconds time{0};   // since the job first ran
  std::chrono::milliseconds lasts{0};  // of stop and slow; 0: until the process ends
  bool operator==(const ChaosFault&) const = default;
};

// A fault that has not happened yet.
struct ArmedFault {
  uint32_t index = 0;  // in chaos_schedule() of the job
  ChaosFault fault;
  bool due = false;  // its step is done. The master sets it if a runner cannot see the job's steps
};

// Returns the fault in the notation above; parse_chaos_fault() reads it back.
std::string to_string(const ChaosFault& fault);
// Reads an entry that is not a seed. invalid_argument describes the error.
Result<ChaosFault> parse_chaos_fault(std::string_view text);

// Checks one entry of --chaos: ok if it can be a fault or a seed of a job with so many workers (0:
// unknown).
Status check_chaos(std::string_view spec, uint32_t num_workers);
inline constexpr size_t kMostChaos = 64;  // entries of a job
// A part of the message with which the master refuses a fault that its journal has already.
inline constexpr std::string_view kFaultCameBefore = "it has come before";

// Returns all faults of a job, in the order of the entries; those of a seed in the order of time.
// REQUIRES: check_chaos() is ok for each entry.
Result<std::vector<ChaosFault>> chaos_schedule(std::span<const std::string> specs,
                                               uint32_t num_workers);

}  // namespace leat
