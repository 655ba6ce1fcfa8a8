#include "transport/rpc/framing.h"

#include <algorithm>
#include <cstring>

#include "devices/base/text.h"

namespace leat {
namespace {

constexpr size_t kWord = sizeof(uint64_t);
constexpr size_t kBaseBytes = 16u << 10;  // holds any segment table

}  // namespace

size_t table_bytes(uint64_t segments) { return (4 * (segments + 1) + kWord - 1) / kWord * kWord; }

MessageFraming::MessageFraming(size_t max_message_bytes)
    : max_message_bytes_(max_message_bytes), buffer_(kBaseBytes / kWord) {}

uint32_t MessageFraming::word32(size_t offset) const {
  uint32_t value;
  std::memcpy(&value, reinterpret_cast<const std::byte*>(buffer_.data()) + begin_ + offset, 4);
  return value;  // the whole project is for little-endian machines only
}

// Sets total_ as soon as the segment table is complete.
Status MessageFraming::read_header() {
  const size_t have = end_ - begin_;
  if (total_ != 0 || have < 4) return {};
  const uint32_t last_segment = word32(0);
  // The field has the count less one, and a peer may claim up to 2^32 segments.
  if (last_segment >= kMaxSegments) {
    return invalid_argument(cat("message of ", uint64_t{last_segment} + 1,
                                " segments: expected at most ", kMaxSegments));
  }
  const uint64_t segments = uint64_t{last_segment} + 1;
  // The sizes are added in 64 bits, so 511 of them cannot overflow.
  if (have < table_bytes(segments)) return {};
  uint64_t total = table_bytes(segments);
  for (uint64_t i = 0; i < segments; ++i) total += uint64_t{word32(4 * (i + 1))} * kWord;
  // The error comes before any memory is taken for the message, and the caller ends the connection.
  if (total > max_message_bytes_) {
    return resource_exhausted(
        cat("message of ", total, " bytes: expected at most ", max_message_bytes_));
  }
  total_ = total;
  return {};
}

// Grows the buffer with the bytes that have come, not with those that the table promises.
void MessageFraming::make_room() {
  const size_t have = end_ - begin_;
  // The bytes that are left move to the front, so that the free space is in one piece.
  if (begin_ > 0) {
    auto* bytes = reinterpret_cast<std::byte*>(buffer_.data());
    std::memmove(bytes, bytes + begin_, have);
    begin_ = 0;
    end_ = have;
  }
  if (have == 0 && held_bytes() > kBaseBytes) {
    buffer_ = std::vector<uint64_t>(kBaseBytes / kWord);  // a large message has just gone through
  } else if (end_ == held_bytes()) {
    buffer_.resize(std::max(have + kWord, std::min(total_, 2 * have)) / kWord);
  }
}

std::span<std::byte> MessageFraming::space() {
  make_room();
  return std::as_writable_bytes(std::span(buffer_)).subspan(end_);
}

Result<std::optional<FramedMessage>> MessageFraming::next() {
  LEAT_RETURN_IF_ERROR(read_header());
  if (!whole()) return std::optional<FramedMessage>();
  return std::optional<FramedMessage>(take());
}

// Copies the message out of the buffer, which is used again for the next one.
FramedMessage MessageFraming::take() {
  FramedMessage message;
  const uint32_t segments = word32(0) + 1;
  for (uint32_t i = 0; i < segments; ++i) message.segment_words.push_back(word32(4 * (i + 1)));
  const size_t table = table_bytes(segments);
  // The segments lie behind the table, one after the other, as they came.
  message.words.resize((total_ - table) / kWord);
  if (!message.words.empty()) {
    std::memcpy(message.words.data(),
                reinterpret_cast<const std::byte*>(buffer_.data()) + begin_ + table,
                total_ - table);
  }
  begin_ += total_;
  total_ = 0;
  return message;
}

std::vector<uint32_t> segment_table(std::span<const uint32_t> segment_words) {
  std::vector<uint32_t> table;
  table.push_back(static_cast<uint32_t>(segment_words.size()) - 1);
  table.insert(table.end(), segment_words.begin(), segment_words.end());
  // The table ends on a word of 8 bytes.
  if (table.size() % 2 != 0) table.push_back(0);
  return table;
}

}  // namespace leat
