// A fault that may happen to a job on a cluster, drawn from a seed: equal seeds give equal faults.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace leat {

enum class Deed : uint8_t {
  kill_runner,    // SIGKILL
  crash_runner,   // SIGSEGV
  stop_runner,    // SIGSTOP
  kill_worker,    // SIGKILL; a new one starts afterwards
  stop_worker,    // SIGSTOP; it continues afterwards
  close_sockets,  // `ss -K` of the connections to its data port
};
enum class Phase : uint8_t {
  queued,      // just submitted
  starting,    // runners are being started
  preparing,   // all runners are there
  first_step,  // of the assembly
  middle,
  checkpoint,  // one has just appeared, or is being written
  evaluation,
  ending,  // the last step is done
};
inline constexpr std::array<Deed, 6> kDeeds = {Deed::kill_runner, Deed::crash_runner,
                                               Deed::stop_runner, Deed::kill_worker,
                                               Deed::stop_worker, Deed::close_sockets};
inline constexpr std::array<Phase, 8> kPhases = {
    Phase::queued, Phase::starting,   Phase::preparing,  Phase::first_step,
    Phase::middle, Phase::checkpoint, Phase::evaluation, Phase::ending};

std::string_view name_of(Deed deed);    // "kill_runner"
std::string_view name_of(Phase phase);  // "first_step"

// A deed, the task that it hits, and the moment in the job.
struct Fault {
  uint64_t seed = 0;
  Deed deed = Deed::kill_runner;
  Phase phase = Phase::middle;
  uint32_t victim = 0;    // modulo the number of tasks
  uint32_t step = 0;      // for the phase `middle`
  uint32_t delay_us = 0;  // from the sight of the phase to the deed
  bool cancel = false;    // cancels the job, which would otherwise recover
};
// Draws a fault. Consecutive seeds go through all deeds and phases; the rest is random.
Fault draw_fault(uint64_t seed);

}  // namespace leat
