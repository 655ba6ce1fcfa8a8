// Writes fields of protocol buffers, for the files that TensorBoard reads: the number of a field
// and the kind of its encoding, then the value. Source: the encoding of Protocol Buffers,
// protobuf.dev/programming-guides/encoding.
//
// Threads: pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace leat {

// A message, or the part of one that is there so far. A field of a message is added as its bytes.
class ProtoFields {
 public:
  ProtoFields& add(int field, int64_t value);  // int32, int64, bool, an enum
  ProtoFields& add(int field, float value);
  ProtoFields& add(int field, double value);
  ProtoFields& add(int field, std::string_view bytes);  // string, bytes
  ProtoFields& add(int field, const ProtoFields& message) { return add(field, message.bytes_); }
  ProtoFields& add(int field, std::span<const double> packed);  // a repeated field
  // A text in quotes would else become a bool.
  ProtoFields& add(int field, const char* text) { return add(field, std::string_view(text)); }

  const std::string& bytes() const { return bytes_; }
  bool empty() const { return bytes_.empty(); }

 private:
  void add_varint(uint64_t value);
  void add_tag(int field, int wire);

  std::string bytes_;
};

}  // namespace leat
