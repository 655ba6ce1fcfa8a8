#include "daemon/curves/event_file.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <span>

#include "devices/base/crc32c.h"
#include "devices/base/text.h"

namespace leat {
namespace {

static_assert(std::endian::native == std::endian::little);

// Fields of protocol buffers: the number of the field and the kind of its encoding, then the value.
enum Wire : uint8_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

template <typename T>
void append_raw(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void append_varint(std::string& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  out += static_cast<char>(value);
}

void append_tag(std::string& out, int field, Wire wire) {
  append_varint(out, static_cast<uint64_t>(field) << 3 | wire);
}

void append_bytes(std::string& out, int field, const std::string& bytes) {
  append_tag(out, field, kBytes);
  append_varint(out, bytes.size());
  out += bytes;
}

// Event: wall_time = 1, step = 2, file_version = 3, summary = 5.
std::string event_at(double wall_time, int64_t step) {
  std::string event;
  append_tag(event, 1, kFixed64);
  append_raw(event, wall_time);
  append_tag(event, 2, kVarint);
  append_varint(event, static_cast<uint64_t>(step));
  return event;
}

// Summary: value = 1, repeated. Its Value: tag = 1, simple_value = 2.
void append_scalar(std::string& summary, const std::string& tag, double number) {
  std::string value;
  append_bytes(value, 1, tag);
  append_tag(value, 2, kFixed32);
  append_raw(value, static_cast<float>(number));
  append_bytes(summary, 1, value);
}

uint32_t masked_crc(const std::string& bytes) {
  const uint32_t crc = crc32c(std::as_bytes(std::span(bytes.data(), bytes.size())));
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

void append_record(std::string& out, const std::string& event) {
  std::string length;
  append_raw(length, static_cast<uint64_t>(event.size()));
  out += length;
  append_raw(out, masked_crc(length));
  out += event;
  append_raw(out, masked_crc(event));
}

// The name of an epoch's or a validation's number among those of steps.
std::string tag_of(const std::string& name, std::string_view group) {
  return name.starts_with("val_") ? cat("validation/", name.substr(4)) : cat(group, name);
}

// `group`: the beginning of the names. Numbers that `other` has, too, are left out.
void append_rows(const MetricsRows& rows, std::string_view group, const MetricsRows& other,
                 double wall_time, std::string& out) {
  for (size_t i = 0; i < rows.size(); ++i) {
    std::string summary;
    for (size_t n = 0; n < rows.names.size(); ++n) {
      const std::string& name = rows.names[n];
      if (std::isnan(rows.values[i][n]) || other.find(name) < other.names.size()) continue;
      append_scalar(summary, group.empty() ? name : tag_of(name, group), rows.values[i][n]);
    }
    if (summary.empty()) continue;
    std::string event = event_at(wall_time, rows.steps[i]);
    append_bytes(event, 5, summary);
    append_record(out, event);
  }
}

}  // namespace

std::string event_file(const MetricsTable& table, double wall_time) {
  std::string out;
  std::string first = event_at(wall_time, 0);
  append_bytes(first, 3, "brain.Event:2");
  append_record(out, first);
  append_rows(table.of_steps, "", {}, wall_time, out);
  append_rows(table.of_validations, "validation/", {}, wall_time, out);
  append_rows(table.of_epochs, "epoch/", table.of_validations, wall_time, out);
  return out;
}

}  // namespace leat
