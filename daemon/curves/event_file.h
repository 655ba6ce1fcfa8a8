// Writes the numbers of a training as a file that TensorBoard reads.
//
// The file is a list of records, each an `Event` of TensorFlow's protocol buffers:
//
//   uint64 length | uint32 masked CRC-32C of the length | the event | uint32 masked CRC-32C of it
//
// Source: tensorflow/core/util/event.proto, tensorflow/core/framework/summary.proto, and the format
// of records in tensorflow/core/lib/io/record_writer.h.
//
// Equal calls give equal bytes.
#pragma once

#include <string>

#include "daemon/curves/histogram.h"
#include "daemon/curves/metrics_table.h"

namespace leat {

class ProtoFields;

// Threads: one.
class EventFile {
 public:
  // `wall_time`: the seconds since 1970 that all events have, since a log of metrics has no times.
  explicit EventFile(double wall_time);

  // Adds the numbers of each step under their names ("loss"), those of each validation that has a
  // row of its own, and those of each epoch, at its last step, as "epoch/loss" and
  // "validation/loss" (val_loss). A number that a row lacks has no event.
  void add_numbers(const MetricsTable& table);
  // Adds one number.
  void add_number(const std::string& tag, int64_t step, double value);
  // Adds a distribution, of the weights after `step` for instance.
  void add_histogram(const std::string& tag, int64_t step, const Histogram& histogram);
  // Adds a graph as graph_def() has it. TensorBoard shows the last one.
  void add_graph(const std::string& graph_def);

  const std::string& bytes() const { return bytes_; }

 private:
  // A record with one value of a summary.
  void add_value(int64_t step, const ProtoFields& value);
  void add_rows(const MetricsRows& rows, std::string_view group, const MetricsRows& other);

  const double wall_time_;
  std::string bytes_;
};

// A name that TensorBoard takes for such a file. It is always the same, so that a newer file takes
// the place of an older one.
inline constexpr const char* kEventFileName = "events.out.tfevents.leat";

}  // namespace leat
