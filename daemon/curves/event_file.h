// Writes the numbers of a training as a file that TensorBoard reads.
//
// The file is a list of records, each an `Event` of TensorFlow's protocol buffers:
//
//   uint64 length | uint32 masked CRC-32C of the length | the event | uint32 masked CRC-32C of it
//
// Source: tensorflow/core/util/event.proto, tensorflow/core/framework/summary.proto, and the format
// of records in tensorflow/core/lib/io/record_writer.h.
//
// Threads: pure functions.
#pragma once

#include <string>

#include "daemon/curves/metrics_table.h"

namespace leat {

// The bytes of a file of events: the numbers of each step under their names ("loss"), those of
// each validation that has a row of its own, and those of each epoch, at its last step, as
// "epoch/loss" and "validation/loss" (val_loss). A number that a row lacks has no event.
// `wall_time`: the seconds since 1970 that all events have, since a log of metrics has no times.
// Equal arguments give equal bytes.
std::string event_file(const MetricsTable& table, double wall_time);

// A name that TensorBoard takes for such a file. It is always the same, so that a newer file takes
// the place of an older one.
inline constexpr const char* kEventFileName = "events.out.tfevents.leat";

}  // namespace leat
