// The file in which a recording travels: a message of daemon/wire/recording.capnp.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "daemon/traces/recording.h"
#include "devices/base/status.h"

namespace leat {

// Threads: any, pure functions.
std::vector<std::byte> write_recording(const StepRecording& recording);
// invalid_argument for bytes that are no such message, a kind that does not exist, an instruction
// of an event that is no node, or an event that ends before it begins.
Result<StepRecording> read_recording(std::span<const std::byte> file);

}  // namespace leat
