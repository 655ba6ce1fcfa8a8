#include "daemon/traces/recording.h"

#include <algorithm>

namespace leat {

uint64_t StepRecording::first() const {
  uint64_t first = 0;
  for (const RecordedPartition& each : partitions) first = std::max(first, each.first);
  return first;
}

uint64_t StepRecording::end() const {
  uint64_t end = partitions.empty() ? 0 : std::numeric_limits<uint64_t>::max();
  for (const RecordedPartition& each : partitions) end = std::min(end, each.end);
  return end;
}

uint64_t StepRecording::whole_first() const {
  const uint64_t begin = first();
  uint64_t whole = begin;
  for (const RecordedPartition& each : partitions) {
    if (each.events.empty()) {
      // A device with work to do was beyond all turns when its recording began.
      if (!each.nodes.empty()) whole = std::max(whole, end());
      continue;
    }
    const uint64_t seen = std::ranges::min(each.events, {}, &RecordedEvent::turn).turn;
    if (seen > begin) whole = std::max(whole, seen + 1);
  }
  return whole;
}

uint64_t StepRecording::whole_end() const {
  uint64_t whole = end();
  for (const RecordedPartition& each : partitions) whole = std::min(whole, each.lost_from);
  return whole;
}

}  // namespace leat
