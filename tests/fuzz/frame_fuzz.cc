// Decodes a frame header, the records of a bundle, and the messages of the handshake. Decoded
// fields must be in their range, and encoding them again must give the same bytes.
#include <array>
#include <cstring>

#include "tests/fuzz/fuzz.h"
#include "transport/io/identity.h"
#include "transport/links/frame.h"

namespace leat {
namespace {

void check_header(std::span<const std::byte> bytes) {
  if (bytes.size() < kFrameHeaderBytes) return;
  const auto head = bytes.first<kFrameHeaderBytes>();
  const auto header = decode_frame(head);
  if (!header.ok()) return;
  require(header->bytes <= kPieceBytes, "a frame has at most a piece");
  const auto payload = bytes.subspan(kFrameHeaderBytes);
  if (payload.size() != header->bytes) return;
  std::array<std::byte, kFrameHeaderBytes> again;
  encode_frame(*header, payload, again.data());
  require(std::memcmp(again.data(), head.data(), 28) == 0, "a header encodes as it came");
  require(checksum_holds(head, payload) == (std::memcmp(again.data(), head.data(), 32) == 0),
          "a checksum holds if it is the one that would be sent");
}

void check_records(std::span<const std::byte> bytes) {
  size_t total = 0;
  for (RecordReader reader(bytes); !reader.at_end();) {
    const auto record = reader.next();
    if (!record.ok()) return;
    require(record->payload.size() <= kSmallBytes, "a record is small");
    total += record_bytes(record->payload.size());
    require(total <= bytes.size(), "records are within the bundle");
  }
}

template <size_t n, typename Decode>
void check_message(std::span<const std::byte> bytes, const Decode& decode) {
  if (bytes.size() < n) return;
  const auto message = decode(bytes.first<n>());
  if (!message.ok()) return;
  const auto again = encode(*message);
  const auto twice = decode(std::span<const std::byte, n>(again));
  require(twice.ok() && encode(*twice) == again, "a message reads back as it was written");
}

}  // namespace
}  // namespace leat

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace leat;
  const auto bytes = bytes_of_input(data, size);
  check_header(bytes);
  check_records(bytes);
  check_message<kHelloBytes>(bytes, [](auto m) { return decode_hello(m); });
  check_message<kAnswerBytes>(bytes, [](auto m) { return decode_answer(m); });
  check_message<kVerdictBytes>(bytes, [](auto m) { return decode_verdict(m); });
  return 0;
}
