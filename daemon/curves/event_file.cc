#include "daemon/curves/event_file.h"

#include <cmath>
#include <cstdint>
#include <span>

#include "daemon/curves/proto_fields.h"
#include "devices/base/crc32c.h"
#include "devices/base/text.h"

namespace leat {
namespace {

enum EventField : int { kWallTime = 1, kStep = 2, kVersion = 3, kGraph = 4, kSummary = 5 };
// A Summary's repeated value, and the fields of that.
enum SummaryField : int { kValue = 1, kTag = 1, kSimpleValue = 2, kHistogram = 5 };
enum HistogramField : int { kMin = 1, kMax, kCount, kSum, kSumOfSquares, kLimits, kCounts };

uint32_t masked_crc(const std::string& bytes) {
  const uint32_t crc = crc32c(std::as_bytes(std::span(bytes.data(), bytes.size())));
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

template <typename T>
std::string raw_bytes(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

void append_record(std::string& out, const ProtoFields& event) {
  const std::string length = raw_bytes(static_cast<uint64_t>(event.bytes().size()));
  out += length;
  out += raw_bytes(masked_crc(length));
  out += event.bytes();
  out += raw_bytes(masked_crc(event.bytes()));
}

// The name of an epoch's or a validation's number among those of steps.
std::string tag_of(const std::string& name, std::string_view group) {
  return name.starts_with("val_") ? cat("validation/", name.substr(4)) : cat(group, name);
}

}  // namespace

EventFile::EventFile(double wall_time) : wall_time_(wall_time) {
  append_record(bytes_, ProtoFields()
                            .add(kWallTime, wall_time_)
                            .add(kStep, int64_t{0})
                            .add(kVersion, "brain.Event:2"));
}

void EventFile::add_numbers(const MetricsTable& table) {
  add_rows(table.of_steps, "", {});
  add_rows(table.of_validations, "validation/", {});
  add_rows(table.of_epochs, "epoch/", table.of_validations);
}

// `group`: the beginning of the names. Numbers that `other` has, too, are left out.
void EventFile::add_rows(const MetricsRows& rows, std::string_view group,
                         const MetricsRows& other) {
  for (size_t i = 0; i < rows.size(); ++i) {
    ProtoFields summary;
    for (size_t n = 0; n < rows.names.size(); ++n) {
      const std::string& name = rows.names[n];
      if (std::isnan(rows.values[i][n]) || other.find(name) < other.names.size()) continue;
      summary.add(kValue, ProtoFields()
                              .add(kTag, group.empty() ? name : tag_of(name, group))
                              .add(kSimpleValue, static_cast<float>(rows.values[i][n])));
    }
    if (summary.empty()) continue;
    append_record(
        bytes_,
        ProtoFields().add(kWallTime, wall_time_).add(kStep, rows.steps[i]).add(kSummary, summary));
  }
}

void EventFile::add_number(const std::string& tag, int64_t step, double value) {
  add_value(step, ProtoFields().add(kTag, tag).add(kSimpleValue, static_cast<float>(value)));
}

void EventFile::add_histogram(const std::string& tag, int64_t step, const Histogram& histogram) {
  ProtoFields fields;
  fields.add(kMin, histogram.min)
      .add(kMax, histogram.max)
      .add(kCount, static_cast<double>(histogram.count))
      .add(kSum, histogram.sum)
      .add(kSumOfSquares, histogram.sum_of_squares)
      .add(kLimits, std::span(histogram.limits))
      .add(kCounts, std::span(histogram.counts));
  add_value(step, ProtoFields().add(kTag, tag).add(kHistogram, fields));
}

void EventFile::add_value(int64_t step, const ProtoFields& value) {
  append_record(bytes_, ProtoFields()
                            .add(kWallTime, wall_time_)
                            .add(kStep, step)
                            .add(kSummary, ProtoFields().add(kValue, value)));
}

void EventFile::add_graph(const std::string& graph_def) {
  append_record(
      bytes_,
      ProtoFields().add(kWallTime, wall_time_).add(kStep, int64_t{0}).add(kGraph, graph_def));
}

}  // namespace leat
