// Faults that a job brings upon itself: what `leat submit --chaos` says, and the schedule that it
// comes to, a pure function of what was said and of the job's number of workers.
//
//   kill=worker:1@step=700            SIGKILL
//   stop=worker:2@step=300,for=5s     SIGSTOP, and after the time SIGCONT
//   term=master@time=10s              SIGTERM
//   exit=runner:1@step=9              exits with status 1
//   hang=runner:0@step=9              a kernel that does not return
//   corrupt=runner:1@step=9           a bit of what it sends next to a peer changes on its way
//   slow=master@step=9,for=5s         each write to its disk takes 100 ms longer
//   seed=7,every=15s                  random ones of these, one each 15 s, or each so many steps
//   seed=7,every=200,count=5
//
// `worker:1` is the whole worker that has task 1 of the job, its runner too; `runner:1` the job's
// own process there. A step is a number of steps done; a time counts from when the job first ran.
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

enum class ChaosAction : uint8_t { kill, stop, term, exit, hang, corrupt, slow };
enum class ChaosTarget : uint8_t { worker, runner, master };

struct ChaosFault {
  ChaosAction action = ChaosAction::kill;
  ChaosTarget target = ChaosTarget::worker;
  uint32_t task = 0;                   // of a worker or runner
  uint64_t step = 0;                   // 0: at a time
  std::chrono::milliseconds time{0};   // since the job first ran
  std::chrono::milliseconds lasts{0};  // of stop and slow; 0: for ever
  bool operator==(const ChaosFault&) const = default;
};

// One that is still to come.
struct ArmedFault {
  uint32_t index = 0;  // in chaos_schedule() of the job
  ChaosFault fault;
  bool due = false;  // its step is done, says the master: a runner of this job cannot tell
};

// As it is written; parse_chaos_fault() reads it back.
std::string to_string(const ChaosFault& fault);
// One that is no seed. invalid_argument says what is wrong with it.
Result<ChaosFault> parse_chaos_fault(std::string_view text);

// Of one --chaos: ok if it can be a fault or a seed of a job of so many workers (0: not known).
Status check_chaos(std::string_view spec, uint32_t num_workers);
inline constexpr size_t kMostChaos = 64;  // entries of a job

// All faults of a job, in the order of the entries; those of a seed in that of time.
// REQUIRES: check_chaos() is ok of each.
Result<std::vector<ChaosFault>> chaos_schedule(std::span<const std::string> specs,
                                               uint32_t num_workers);

}  // namespace leat
