// The names under which people see recorded events, and the transfers among them.
//
// Threads: pure functions.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "daemon/traces/recording.h"

namespace leat {

// "compute", "wait", "wake-up" or "transfer".
std::string_view category_of(RecordedEvent::Kind kind);

// Returns the name of the event's node; "waits for NAME" or the like if it only waits.
std::string title_of(const RecordedPartition& part, const RecordedEvent& event);

// A transfer of a value in a step: its edge and its turn.
using RecordedTransfer = std::pair<uint32_t, uint64_t>;

// Numbers the transfers that both ends have recorded, from 1.
std::map<RecordedTransfer, uint64_t> matched_transfers(const StepRecording& recording);

}  // namespace leat
