// Writes that must succeed even if the disk is full for a while.
#pragma once

#include <chrono>
#include <functional>
#include <string_view>

#include "devices/base/status.h"

namespace leat {

// Begins the reason of a job that waits while its master's disk is full; the error follows.
inline constexpr std::string_view kWaitsForRoom = "waits for room: ";

// Calls `attempt` again while it fails with resource_exhausted, until `patience` is over or `stop`
// returns true. Calls `told` with the first such failure. `attempt` must not leave anything behind
// that prevents the next attempt. Returns the last status. Blocks.
Status retry_while_full(const std::function<Status()>& attempt, const std::function<bool()>& stop,
                        const std::function<void(const Status&)>& told,
                        std::chrono::milliseconds patience = std::chrono::minutes(10));

}  // namespace leat
