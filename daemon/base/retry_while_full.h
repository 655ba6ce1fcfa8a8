// What has to be written, though the disk is full for a while.
#pragma once

#include <chrono>
#include <functional>

#include "devices/base/status.h"

namespace leat {

// Attempts it again while it fails with resource_exhausted: until `patience` is over, or `stop`
// says so. `told` hears of the first failure. What is attempted must leave nothing behind that is
// in the way of the next attempt. Blocks.
Status retry_while_full(const std::function<Status()>& attempt, const std::function<bool()>& stop,
                        const std::function<void(const Status&)>& told,
                        std::chrono::milliseconds patience = std::chrono::minutes(10));

}  // namespace leat
