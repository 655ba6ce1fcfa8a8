#include "transport/links/frame.h"

#include <cstring>

#include "devices/base/crc32c.h"
#include "devices/base/text.h"

namespace leat {
namespace {

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "frames are little-endian");

// The fields of the layout that frame.h draws.
constexpr uint16_t kMagic = 0x464C;  // "LF"
constexpr uint8_t kVersion = 2;
constexpr size_t kChecksumAt = 28;
// Set in a record's size if the record is a credit.
constexpr uint32_t kCreditBit = uint32_t{1} << 31;

// Read and write a field at its offset. memcpy, because nothing aligns the fields.
template <typename T>
void put(std::byte* out, size_t at, T value) {
  std::memcpy(out + at, &value, sizeof value);
}

template <typename T>
T get(const std::byte* in, size_t at) {
  T value;
  std::memcpy(&value, in + at, sizeof value);
  return value;
}

// The most bytes of payload in a frame of this kind; 0 for an unknown kind, too.
size_t payload_limit(FrameKind kind) {
  switch (kind) {
    case FrameKind::value:
      return kPieceBytes;
    case FrameKind::bundle:
      return kBundleBytes;
    case FrameKind::abort:
      return kAbortBytes;
    case FrameKind::ping:
    case FrameKind::pong:
      return 0;
  }
  return 0;
}

}  // namespace

void encode_frame(const FrameHeader& header, std::span<const std::byte> payload, std::byte* out) {
  put(out, 0, kMagic);
  put(out, 2, kVersion);
  put(out, 3, header.kind);
  put(out, 4, header.edge);
  put(out, 8, header.turn);
  put(out, 16, header.piece);
  put(out, 20, header.bytes);
  put(out, 24, header.sequence);
  // The checksum covers the header before it, then the payload.
  put(out, kChecksumAt, crc32c(payload, crc32c({out, kChecksumAt})));
}

// Every field is judged before it is used: a peer may send anything.
Result<FrameHeader> decode_frame(std::span<const std::byte, kFrameHeaderBytes> bytes) {
  const std::byte* in = bytes.data();
  if (get<uint16_t>(in, 0) != kMagic) {
    return invalid_argument(
        cat("frame: magic: expected ", kMagic, ", received ", get<uint16_t>(in, 0)));
  }
  if (get<uint8_t>(in, 2) != kVersion) {
    return invalid_argument(
        cat("frame: version: expected ", int{kVersion}, ", received ", int{get<uint8_t>(in, 2)}));
  }
  const auto kind = get<uint8_t>(in, 3);
  if (kind < static_cast<uint8_t>(FrameKind::value) ||
      kind > static_cast<uint8_t>(FrameKind::pong)) {
    return invalid_argument(cat("frame: kind: expected 1 to 5, received ", int{kind}));
  }
  FrameHeader header;
  header.kind = static_cast<FrameKind>(kind);
  header.edge = get<uint32_t>(in, 4);
  header.turn = get<uint64_t>(in, 8);
  header.piece = get<uint32_t>(in, 16);
  header.bytes = get<uint32_t>(in, 20);
  header.sequence = get<uint32_t>(in, 24);
  if (header.bytes > payload_limit(header.kind)) {
    return invalid_argument(cat("frame: bytes: expected at most ", payload_limit(header.kind),
                                " for kind ", int{kind}, ", received ", header.bytes));
  }
  // Only values have pieces. Zeros keep the field free for a later version.
  if (header.kind != FrameKind::value && header.piece != 0) {
    return invalid_argument(
        cat("frame: piece: expected 0 for kind ", int{kind}, ", received ", header.piece));
  }
  return header;
}

bool checksum_holds(std::span<const std::byte, kFrameHeaderBytes> header,
                    std::span<const std::byte> payload) {
  return checksum_of(header) == crc32c(payload, crc32c(header.first(kChecksumAt)));
}

uint32_t checksum_of(std::span<const std::byte, kFrameHeaderBytes> header) {
  return get<uint32_t>(header.data(), kChecksumAt);
}

// The padding is zeroed, so that no old bytes of this process leak to the peer.
void encode_record(const Record& record, std::byte* out) {
  const bool credit = record.what == Record::What::credit;
  const size_t bytes = record.payload.size();
  put(out, 0, record.edge);
  put(out, 4, credit ? kCreditBit : static_cast<uint32_t>(bytes));
  put(out, 8, record.turn);
  if (bytes == 0) return;
  std::memcpy(out + kRecordBytes, record.payload.data(), bytes);
  std::memset(out + kRecordBytes + bytes, 0, record_bytes(bytes) - kRecordBytes - bytes);
}

Result<Record> RecordReader::next() {
  if (rest_.size() < kRecordBytes) {
    return invalid_argument(cat("bundle: expected a record of at least ", kRecordBytes, " bytes, ",
                                rest_.size(), " are left"));
  }
  Record record;
  record.edge = get<uint32_t>(rest_.data(), 0);
  const auto bytes = get<uint32_t>(rest_.data(), 4);
  record.turn = get<uint64_t>(rest_.data(), 8);
  // A credit has the bit and nothing else: any other number with the bit is too large for a value.
  if (bytes == kCreditBit) {
    record.what = Record::What::credit;
  } else if (bytes > kSmallBytes || record_bytes(bytes) > rest_.size()) {
    return invalid_argument(cat("bundle: edge ", record.edge, ": expected at most ", kSmallBytes,
                                " bytes that are there, received ", bytes, " with ", rest_.size(),
                                " left"));
  } else {
    record.payload = rest_.subspan(kRecordBytes, bytes);
  }
  rest_ = rest_.subspan(record_bytes(record.payload.size()));
  return record;
}

}  // namespace leat
