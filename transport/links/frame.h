// Frames: how values and control travel between two peers that share no memory.
//
// A frame is a header of 32 bytes, little-endian, and up to 256 KiB of payload:
//
//   0        2  3     4        8               16       20       24        28
//   | "LF"   | v| kind| edge   | turn          | piece  | bytes  | sequence| crc32c |
//
// v        the layout's version, 2
// edge     of a value: its index in the plan; of an abort: its code
// turn     of a value: the run's turn; of a ping or pong: any number
// piece    of a value: which 256 KiB of it. All pieces are full but the last
// bytes    of payload
// sequence counts the frames of one socket in one direction from 0: what is lost, repeated or
//          swapped shows at once
// crc32c   of the 28 bytes before it and, but for a value, of the payload
//
// Behind the payload of a value come 4 bytes: the header's checksum, gone on over the payload. A
// sender takes it when the bytes have left, which brought them into its cache.
//
// A large value goes as value frames, alone on its socket. All that is small goes in bundles: the
// payload of a bundle is a row of records, each 16 bytes and the bytes of its value, padded to 8.
// Frames carry no identity: the handshake bound their connection to one run (identity.h).
//
// Nothing here trusts what it reads: a header that decodes has every field in its range. What the
// plan knows (does the edge exist, how large is it, is its turn due) is judged by LinkState.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "devices/base/status.h"

namespace leat {

inline constexpr size_t kFrameHeaderBytes = 32;
inline constexpr size_t kChecksumBytes = 4;       // behind the payload of a value frame
inline constexpr size_t kPieceBytes = 256 << 10;  // of a value in one frame
inline constexpr size_t kBundleBytes = 64 << 10;  // of payload of a bundle
inline constexpr size_t kSmallBytes = 16 << 10;   // values up to here travel in bundles
inline constexpr size_t kAbortBytes = 1 << 10;    // of the message of an abort
inline constexpr size_t kRecordBytes = 16;        // of a record of a bundle, without its value

enum class FrameKind : uint8_t {
  value = 1,  // a piece of a large value
  bundle,     // small values and credits
  abort,      // the run has failed at the sender: `edge` is the code, the payload the message
  ping,       // to be answered with a pong of the same turn
  pong,
  // 6 was a fence, which nothing sent; the number stays unused, so that no other one changes.
};

struct FrameHeader {
  FrameKind kind = FrameKind::ping;
  uint32_t edge = 0;
  uint64_t turn = 0;
  uint32_t piece = 0;
  uint32_t bytes = 0;
  uint32_t sequence = 0;
};

// Writes the header of a frame with this payload to `out`, kFrameHeaderBytes of room; of a value's,
// without any.
void encode_frame(const FrameHeader& header, std::span<const std::byte> payload, std::byte* out);

// Reads a header. invalid_argument that names the field if any is out of its range.
Result<FrameHeader> decode_frame(std::span<const std::byte, kFrameHeaderBytes> bytes);

// Is the checksum in the header that of the header and the payload? A value's is of none.
bool checksum_holds(std::span<const std::byte, kFrameHeaderBytes> header,
                    std::span<const std::byte> payload);

// The checksum in a header: what that of a value's payload goes on from.
uint32_t checksum_of(std::span<const std::byte, kFrameHeaderBytes> header);

// Pieces of a value of `bytes` bytes; 1 if it is empty. And the bytes of one of them.
constexpr uint64_t pieces_of(uint64_t bytes) {
  return bytes == 0 ? 1 : (bytes + kPieceBytes - 1) / kPieceBytes;
}
constexpr uint64_t piece_bytes(uint64_t bytes, uint64_t piece) {
  const uint64_t from = piece * kPieceBytes;
  return bytes - from < kPieceBytes ? bytes - from : kPieceBytes;
}

// One record of a bundle.
struct Record {
  enum class What : uint8_t { value, credit };
  What what = What::value;
  uint32_t edge = 0;
  uint64_t turn = 0;                   // of a credit: turns of the edge that the receiver retired
  std::span<const std::byte> payload;  // of a value
};

// What a record with `payload` bytes takes in a bundle.
constexpr size_t record_bytes(size_t payload) { return kRecordBytes + (payload + 7) / 8 * 8; }

// Writes a record to `out`, record_bytes(payload) of room.
void encode_record(const Record& record, std::byte* out);

// Reads the records of a bundle one after the other.
class RecordReader {
 public:
  explicit RecordReader(std::span<const std::byte> bundle) : rest_(bundle) {}
  bool at_end() const { return rest_.empty(); }
  // REQUIRES: !at_end(). The record's payload points into the bundle.
  Result<Record> next();

 private:
  std::span<const std::byte> rest_;
};

}  // namespace leat
