// A byte stream cut into Cap'n Proto messages, without believing what it says of itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "devices/base/status.h"

namespace leat {

// One message: its segments lie one after the other in `words`.
struct FramedMessage {
  std::vector<uint64_t> words;
  std::vector<uint32_t> segment_words;  // at least one

  size_t bytes() const { return words.size() * sizeof(uint64_t); }
};

// The library's own reader of this framing allocates what a header claims before a byte of it is
// there, and computes with a segment count of 2^32 (hazards C1, C2). This one looks at the count
// and at the claimed total before anything else, and then holds at most twice the bytes that have
// arrived. Pure: no I/O, no clock.
//
//   0  4  number of segments, less one
//   4  4  words of segment 0, and so on; zeros up to a multiple of 8
//   ..    the segments
// Threads: one at a time.
class MessageFraming {
 public:
  static constexpr uint32_t kMaxSegments = 511;

  // Messages of more than `max_message_bytes`, table included, are refused.
  explicit MessageFraming(size_t max_message_bytes);

  // Where the next bytes belong: never empty, valid until the next call of any member.
  std::span<std::byte> space();
  // `size` bytes were put there.
  void received(size_t size) { end_ += size; }

  // The next whole message, or none as yet. An error is final: it is returned again and again.
  Result<std::optional<FramedMessage>> next();
  // A message has begun, and its end is not here. REQUIRES: next() returned none.
  bool in_message() const { return !whole() && end_ > begin_; }
  // What this object holds in memory.
  size_t held_bytes() const { return buffer_.size() * sizeof(uint64_t); }

 private:
  bool whole() const { return total_ != 0 && end_ - begin_ >= total_; }
  uint32_t word32(size_t offset) const;
  Status read_header();
  FramedMessage take();
  void make_room();

  size_t max_message_bytes_;
  std::vector<uint64_t> buffer_;
  size_t begin_ = 0;  // bytes [begin_, end_) of the buffer are received and not taken
  size_t end_ = 0;
  size_t total_ = 0;  // of the message at begin_: bytes of table and segments; 0: not known yet
};

// The table that goes before the segments of a message, and its size.
std::vector<uint32_t> segment_table(std::span<const uint32_t> segment_words);
size_t table_bytes(uint64_t segments);

}  // namespace leat
