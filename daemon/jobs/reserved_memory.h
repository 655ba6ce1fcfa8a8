// The memory that runners have reserved for their jobs, by what it is for.
#pragma once

#include <cstdint>

namespace leat {

// Bytes. Of one runner, or of several together. A runner reserves memory for a run when the run is
// prepared, so these are what plans need and not what has been touched.
struct ReservedMemory {
  uint64_t variables = 0;    // parameters, and the state of optimizers
  uint64_t activations = 0;  // the arena: values that live within one step
  uint64_t constants = 0;    // values of the plan that no step changes
  uint64_t transfers = 0;    // slots for values of other devices
  uint64_t fetches = 0;      // values that the master reads
  uint64_t data = 0;         // data sets

  bool operator==(const ReservedMemory&) const = default;
};

// A kind of memory with its name for JSON and metrics.
struct ReservedMemoryField {
  const char* name;
  uint64_t ReservedMemory::*bytes;
};
// Every field of ReservedMemory: sums, pulses, JSON and metrics go through this list, so a new
// field has to be in it.
inline constexpr ReservedMemoryField kReservedMemoryFields[] = {
    {"variables", &ReservedMemory::variables}, {"activations", &ReservedMemory::activations},
    {"constants", &ReservedMemory::constants}, {"transfers", &ReservedMemory::transfers},
    {"fetches", &ReservedMemory::fetches},     {"data", &ReservedMemory::data},
};

inline ReservedMemory& operator+=(ReservedMemory& sum, const ReservedMemory& more) {
  for (const ReservedMemoryField& field : kReservedMemoryFields)
    sum.*field.bytes += more.*field.bytes;
  return sum;
}

inline uint64_t total(const ReservedMemory& memory) {
  uint64_t bytes = 0;
  for (const ReservedMemoryField& field : kReservedMemoryFields) bytes += memory.*field.bytes;
  return bytes;
}

}  // namespace leat
