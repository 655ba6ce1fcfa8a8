// A runner's sign of life: the message that it sends to its worker every 250 ms over the socket
// that the two share (see RunnerBoot in cluster.capnp). Worker and runner read and write it with
// these functions.
//
//   bytes 0..7      turns   little-endian
//   bytes 8..15     tiles   little-endian
//   bytes 16..79    traffic: eight numbers in the order of kLinkCounterFields, little-endian
//   bytes 80..127   reserved in the memory of the machine: six numbers in the order of
//                   kReservedMemoryFields, little-endian
//   bytes 128..175  the same in that of its other devices
//   bytes 176..207  the last fault that it asks for: its number, action, whether it is of the
//                   worker, and how many milliseconds it lasts, little-endian
//   byte  208       activity
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <span>

#include "daemon/jobs/reserved_memory.h"
#include "transport/link_counters.h"

namespace leat {

// The work of a runner at the moment of a pulse.
enum class RunnerActivity : uint8_t {
  idle = 0,       // no run has an unfinished step; endless runs do not count
  computing = 1,  // at least one unfinished step does not wait for a peer
  waits_for_peers =
      2,  // every unfinished step waits for a value of a peer, or for a peer to take one
};

// A fault of chaos that a runner cannot commit itself: it may not signal its worker, and a process
// that is the first one of its namespace cannot kill itself. The worker obeys if the master has
// said that the job may have faults.
struct AskedFault {
  uint64_t number = 0;        // rises with each fault that the runner asks for; 0: none yet
  uint64_t action = 0;        // ChaosAction
  uint64_t is_of_worker = 0;  // 1: of both processes
  uint64_t lasts_ms = 0;

  bool operator==(const AskedFault&) const = default;
};

// The content of the message.
struct RunnerPulse {
  uint64_t turns = 0;  // finished by all runs that the runner ever had; it never falls
  uint64_t tiles =
      0;  // finished by the runs that the runner has now; it changes while they compute
  LinkCounters traffic;  // of all links that the runner ever had
  ReservedMemory host, accelerators;
  RunnerActivity activity = RunnerActivity::idle;
  AskedFault fault = {};

  bool operator==(const RunnerPulse&) const = default;
};

inline constexpr size_t kPulseBytes =
    8 * (2 + std::size(kLinkCounterFields) + 2 * std::size(kReservedMemoryFields) + 4) + 1;

std::array<std::byte, kPulseBytes> write_pulse(const RunnerPulse& pulse);
// Returns nothing if the last byte is not an activity.
std::optional<RunnerPulse> read_pulse(std::span<const std::byte, kPulseBytes> bytes);

}  // namespace leat
