#include "tests/daemon/faults/fault.h"

#include <random>

namespace leat {
namespace {

constexpr std::string_view kDeedNames[] = {"kill_runner", "crash_runner", "stop_runner",
                                           "kill_worker", "stop_worker",  "close_sockets"};
constexpr std::string_view kPhaseNames[] = {"queued", "starting",   "preparing",  "first_step",
                                            "middle", "checkpoint", "evaluation", "ending"};

}  // namespace

std::string_view name_of(Deed deed) { return kDeedNames[static_cast<size_t>(deed)]; }
std::string_view name_of(Phase phase) { return kPhaseNames[static_cast<size_t>(phase)]; }

Fault draw_fault(uint64_t seed) {
  std::mt19937_64 random(seed);
  Fault fault;
  fault.seed = seed;
  // 6 and 8 share a factor, so every full turn of the deeds shifts the phases by one more.
  fault.deed = kDeeds[seed % kDeeds.size()];
  fault.phase = kPhases[(seed + seed / 24) % kPhases.size()];
  fault.victim = static_cast<uint32_t>(random() % 1000);
  fault.step = 20 + static_cast<uint32_t>(random() % 150);
  fault.delay_us = static_cast<uint32_t>(random() % 20'000);
  fault.cancel = random() % 5 == 0;
  return fault;
}

}  // namespace leat
