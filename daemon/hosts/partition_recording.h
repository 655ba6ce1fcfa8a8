// The recording of a partition's steps, as a record for other processes.
#pragma once

#include "daemon/traces/recording.h"
#include "scheduler/runtime/device_host.h"

namespace leat {

// Ends the recording of the partition's run, and returns it with the plan's names. The worker's
// name and the offset of the clock are the caller's to fill in. Threads: any.
RecordedPartition take_recording(DeviceHost& host, HostedPartition& partition);

}  // namespace leat
