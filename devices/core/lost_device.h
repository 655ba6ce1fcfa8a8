// The failure of an accelerator, as those see it that could go on with another one.
#pragma once

#include "devices/base/status.h"
#include "devices/core/device.h"

namespace leat {

// True if the device has failed for good: work behind what failed is not done. Never for a device
// whose memory the host sees.
inline bool is_lost(Device& device) {
  if (device.host_visible()) return false;
  for (const QueueFor queue : {QueueFor::compute, QueueFor::copies_in, QueueFor::copies_out}) {
    if (device.queue(queue).timeline().failed()) return true;
  }
  return false;
}

// An internal error becomes unavailable if the device has failed: it is as the loss of its process,
// after which another one can go on.
inline Status as_loss_of(Device& device, const Status& failure) {
  return failure.code() == Code::internal && is_lost(device) ? unavailable(failure.message())
                                                             : failure;
}

}  // namespace leat
