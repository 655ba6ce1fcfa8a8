// Cuts a byte stream into Cap'n Proto messages, without trusting what the stream says of itself.
//
// A message, little-endian:
//
//   0  4  number of segments, less one
//   4  4  words of segment 0; the same for each further segment; zeros up to a multiple of 8
//   ..    the segments, words of 8 bytes
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "devices/base/status.h"

namespace leat {

// One message. Its segments lie one after the other in `words`.
struct FramedMessage {
  std::vector<uint64_t> words;
  // The size of each segment, of which there is at least one.
  std::vector<uint32_t> segment_words;

  size_t bytes() const { return words.size() * sizeof(uint64_t); }
};

// The library's own reader of this framing allocates as much as a header claims before a byte of it
// has come, and overflows at a segment count of 2^32. This reader judges the count and the claimed
// total first. After that it holds at most twice the bytes that have come. Pure: no I/O, no clock.
// Threads: one at a time.
class MessageFraming {
 public:
  // Messages of more segments are refused.
  static constexpr uint32_t kMaxSegments = 511;

  // Messages of more than `max_message_bytes`, table included, are refused.
  explicit MessageFraming(size_t max_message_bytes);

  // The place for the next bytes. Never empty, and valid until the next call of any member.
  std::span<std::byte> space();
  // `size` bytes have been put there.
  void received(size_t size) { end_ += size; }

  // The next whole message, or nothing yet. invalid_argument or resource_exhausted for a header
  // that is refused; an error is final and comes again with every call.
  Result<std::optional<FramedMessage>> next();
  // A message has begun and has not ended. REQUIRES: next() returned nothing.
  bool in_message() const { return !whole() && end_ > begin_; }
  // The memory that this object holds.
  size_t held_bytes() const { return buffer_.size() * sizeof(uint64_t); }

 private:
  bool whole() const { return total_ != 0 && end_ - begin_ >= total_; }
  uint32_t word32(size_t offset) const;
  // Finds the size of the message at begin_, when its table is here.
  Status read_header();
  FramedMessage take();
  void make_room();

  size_t max_message_bytes_;
  std::vector<uint64_t> buffer_;
  // The bytes [begin_, end_) of the buffer have come and are not taken.
  size_t begin_ = 0;
  size_t end_ = 0;
  // The bytes of the message at begin_, table and segments. 0: not known yet.
  size_t total_ = 0;
};

// The table that stands before the segments of a message, and its size in bytes.
std::vector<uint32_t> segment_table(std::span<const uint32_t> segment_words);
size_t table_bytes(uint64_t segments);

}  // namespace leat
