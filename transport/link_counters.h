// The traffic of links, as numbers that only rise. Separate from link.h, for code that has nothing
// else to do with links.
#pragma once

#include <cstdint>

namespace leat {

// The traffic of one link so far, or of several together. Pings and greetings do not count.
struct LinkCounters {
  // Over shared memory there are no frames, and each ring of the bell counts as one.
  uint64_t frames_sent = 0, frames_received = 0;
  // Headers included.
  uint64_t bytes_sent = 0, bytes_received = 0;
  uint64_t values_sent = 0, values_received = 0;
  // Received for a turn that was already closed, and dropped.
  uint64_t late_values = 0;
  // Of bytes_sent, those that went from GPU to GPU (transport/direct/).
  uint64_t bytes_by_wire = 0;

  bool operator==(const LinkCounters&) const = default;
};

// A counter with its name for JSON and metrics, and a sentence about it.
struct LinkCounterField {
  const char* name;
  uint64_t LinkCounters::*value;
  const char* help;
};
inline constexpr LinkCounterField kLinkCounterFields[] = {
    {"frames_sent", &LinkCounters::frames_sent, "Frames sent to other runners"},
    {"frames_received", &LinkCounters::frames_received, "Frames received from other runners"},
    {"bytes_sent", &LinkCounters::bytes_sent, "Bytes sent to other runners, headers included"},
    {"bytes_received", &LinkCounters::bytes_received,
     "Bytes received from other runners, headers included"},
    {"values_sent", &LinkCounters::values_sent, "Tensors and tokens sent to other runners"},
    {"values_received", &LinkCounters::values_received,
     "Tensors and tokens received from other runners"},
    {"late_values", &LinkCounters::late_values, "Tensors received too late, and dropped"},
    {"bytes_by_wire", &LinkCounters::bytes_by_wire,
     "Of the bytes sent, those that went from GPU to GPU without the host's memory"},
};

inline LinkCounters& operator+=(LinkCounters& sum, const LinkCounters& more) {
  for (const LinkCounterField& field : kLinkCounterFields) sum.*field.value += more.*field.value;
  return sum;
}

}  // namespace leat
