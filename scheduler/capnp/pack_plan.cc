#include <cstring>

#include "devices/base/sha256.h"
#include "devices/base/text.h"
#include "ops/graph/limits.h"
#include "scheduler/capnp/plan_file.h"

namespace leat {
namespace {

constexpr size_t kLengthBytes = 8;

void append(Bytes& blob, const Bytes& piece) {
  const uint64_t size = piece.size();  // little-endian, as the machines that we run on are
  const auto length = std::as_bytes(std::span(&size, 1));
  blob.insert(blob.end(), length.begin(), length.end());
  blob.insert(blob.end(), piece.begin(), piece.end());
}

// Takes the next piece off the front of `rest`.
Result<Bytes> take(std::span<const std::byte>& rest, uint64_t limit) {
  uint64_t size = 0;
  if (rest.size() < kLengthBytes) return invalid_argument("reading a plan's blob: it is cut short");
  std::memcpy(&size, rest.data(), kLengthBytes);
  rest = rest.subspan(kLengthBytes);
  // The length is compared with what is left before anything of that length is allocated.
  if (size > limit || size > rest.size()) {
    return invalid_argument(cat("reading a plan's blob: expected a piece of at most ", limit,
                                " bytes, of the ", rest.size(), " that are left, received ", size));
  }
  Bytes piece(rest.begin(), rest.begin() + static_cast<ptrdiff_t>(size));
  rest = rest.subspan(static_cast<size_t>(size));
  return piece;
}

}  // namespace

Bytes pack_plan(const EncodedPlan& encoded) {
  size_t size = kLengthBytes + encoded.message.size();
  for (const EncodedChunk& chunk : encoded.chunks) size += kLengthBytes + chunk.bytes.size();
  Bytes blob;
  // A plan with large constants has gigabytes, so the blob is allocated once.
  blob.reserve(size);
  append(blob, encoded.message);
  for (const EncodedChunk& chunk : encoded.chunks) append(blob, chunk.bytes);
  return blob;
}

Result<EncodedPlan> unpack_plan(std::span<const std::byte> blob) {
  EncodedPlan encoded;
  LEAT_ASSIGN_OR_RETURN(encoded.message, take(blob, kPlanMessageBytes));
  // The digest is computed from the bytes, so a damaged chunk is one that the message does not
  // name.
  while (!blob.empty()) {
    LEAT_ASSIGN_OR_RETURN(Bytes bytes, take(blob, kChunkBytes));
    const Sha256Digest digest = sha256(bytes);
    encoded.chunks.push_back({digest, std::move(bytes)});
  }
  return encoded;
}

}  // namespace leat
