#include "daemon/curves/proto_fields.h"

#include <bit>

namespace leat {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr int kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5;

template <typename T>
std::string_view raw(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

}  // namespace

void ProtoFields::add_varint(uint64_t value) {
  for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>(value | 0x80);
  bytes_ += static_cast<char>(value);
}

void ProtoFields::add_tag(int field, int wire) {
  add_varint(static_cast<uint64_t>(field) << 3 | static_cast<uint64_t>(wire));
}

ProtoFields& ProtoFields::add(int field, int64_t value) {
  add_tag(field, kVarint);
  add_varint(static_cast<uint64_t>(value));
  return *this;
}

ProtoFields& ProtoFields::add(int field, float value) {
  add_tag(field, kFixed32);
  bytes_ += raw(value);
  return *this;
}

ProtoFields& ProtoFields::add(int field, double value) {
  add_tag(field, kFixed64);
  bytes_ += raw(value);
  return *this;
}

ProtoFields& ProtoFields::add(int field, std::string_view bytes) {
  add_tag(field, kBytes);
  add_varint(bytes.size());
  bytes_ += bytes;
  return *this;
}

ProtoFields& ProtoFields::add(int field, std::span<const double> packed) {
  add_tag(field, kBytes);
  add_varint(packed.size() * sizeof(double));
  for (const double each : packed) bytes_ += raw(each);
  return *this;
}

}  // namespace leat
