// Frames: the form in which values and control travel between two peers that share no memory.
//
// A frame is a header of 32 bytes, little-endian, and up to 256 KiB of payload:
//
//   0        2  3     4        8               16       20       24        28
//   | "LF"   | v| kind| edge   | turn          | piece  | bytes  | sequence| crc32c |
//
// v        the version of the layout, 2
// edge     of a value: its index in the plan; of an abort: its code
// turn     of a value: the run's turn; of a ping: its number; of a pong: the ping's number
// piece    of a value: which 256 KiB of it this is. All pieces are full but the last
// bytes    the size of the payload
// sequence counts the frames of one socket in one direction from 0, so that a lost, repeated or
//          swapped frame shows at once
// crc32c   of the 28 bytes before it and, except for a value, of the payload
//
// Behind the payload of a value come 4 bytes: the checksum of the header, continued over the
// payload. Except for a value's last piece, the sender computes it after the bytes have left, since
// sending brings them into its cache.
//
// A large value goes as value frames, alone on its socket. Small values and credits go in bundles.
// The payload of a bundle is a row of records:
//
//   0        4        8               16
//   | edge   | bytes  | turn          | value, padded to a multiple of 8 |
//
// bytes    the size of the value; a credit has the highest bit set, and no value
// turn     of a value: the run's turn; of a credit: the turns that the receiver has retired
//
// Frames carry no identity: the handshake has bound their connection to one run
// (transport/io/identity.h). The reader trusts nothing: a decoded header has every field in its
// range. LinkState judges everything that only the plan knows: whether the edge exists, its size,
// and whether its turn is due.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "devices/base/status.h"

namespace leat {

// Sizes in the layout above, in bytes.
inline constexpr size_t kFrameHeaderBytes = 32;
inline constexpr size_t kChecksumBytes = 4;       // behind the payload of a value frame
inline constexpr size_t kPieceBytes = 256 << 10;  // the most of a value in one frame
inline constexpr size_t kBundleBytes = 64 << 10;  // the largest payload of a bundle
inline constexpr size_t kSmallBytes = 16 << 10;   // values up to here travel in bundles
inline constexpr size_t kAbortBytes = 1 << 10;    // the longest message of an abort
inline constexpr size_t kRecordBytes = 16;        // a record of a bundle, without its value

// The kinds of frames. The wire has the numbers, so a number never changes.
enum class FrameKind : uint8_t {
  value = 1,  // a piece of a large value
  bundle,     // small values and credits
  abort,      // the run has failed at the sender: `edge` is the code, the payload the message
  ping,       // the receiver answers with a pong of the same turn
  pong,
  // 6 was a fence, which nothing sent; the number stays unused, so that no other one changes.
};

// The fields of a header. The magic, the version and the checksum are the encoder's.
struct FrameHeader {
  FrameKind kind = FrameKind::ping;
  uint32_t edge = 0;
  uint64_t turn = 0;
  uint32_t piece = 0;
  uint32_t bytes = 0;
  uint32_t sequence = 0;
};

// Writes the header of a frame with this payload to `out`, which has room for kFrameHeaderBytes.
// The caller passes no payload for a value, whose checksum follows its bytes.
void encode_frame(const FrameHeader& header, std::span<const std::byte> payload, std::byte* out);

// Reads a header. invalid_argument that names the first field out of its range. The checksum is the
// caller's to compare.
Result<FrameHeader> decode_frame(std::span<const std::byte, kFrameHeaderBytes> bytes);

// True if the checksum in the header is that of the header and the payload. A value's header is
// checked without payload.
bool checksum_holds(std::span<const std::byte, kFrameHeaderBytes> header,
                    std::span<const std::byte> payload);

// The checksum in a header. For a value, the checksum of its payload continues from there.
uint32_t checksum_of(std::span<const std::byte, kFrameHeaderBytes> header);

// The number of pieces of a value of `bytes` bytes (1 if it is empty), and the size of one of them.
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
  // For a credit: the number of turns of the edge that the receiver has retired.
  uint64_t turn = 0;
  // The bytes of a value; empty for a credit.
  std::span<const std::byte> payload;
};

// The bytes that a record with `payload` bytes takes in a bundle.
constexpr size_t record_bytes(size_t payload) { return kRecordBytes + (payload + 7) / 8 * 8; }

// Writes a record to `out`, which has room for record_bytes(payload).
void encode_record(const Record& record, std::byte* out);

// Reads the records of a bundle one after the other. The bundle outlives it.
class RecordReader {
 public:
  explicit RecordReader(std::span<const std::byte> bundle) : rest_(bundle) {}
  bool at_end() const { return rest_.empty(); }
  // The next record, whose payload points into the bundle. invalid_argument if the bundle ends
  // within it or its value is too large for a bundle. REQUIRES: !at_end().
  Result<Record> next();

 private:
  std::span<const std::byte> rest_;
};

}  // namespace leat
