// Blobs larger than a message: graphs, plans, logs. Includes Cap'n Proto: for .cc files.
#pragma once

#include <kj/async.h>
#include <kj/timer.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "devices/base/sha256.h"
#include "devices/base/status.h"
#include "transport/rpc/call.h"
#include "transport/rpc/common.capnp.h"
#include "transport/rpc/limits.h"

namespace leat {

// Fastest on loopback (experience with `-> stream`: 5.0 GB/s; 64 KiB 2.8); and the most that an end
// takes.
inline constexpr size_t kTransferBytes = 256u << 10;
inline constexpr size_t kMaxTransferBytes = 1u << 20;

using Blob = std::vector<std::byte>;

// What is told about a blob before its first byte.
struct BlobInfo {
  uint64_t size = 0;
  Sha256Digest sha256{};
};
BlobInfo describe(const Blob& blob);
// Of a Data field of a message. invalid_argument if it is not 32 bytes.
Result<Sha256Digest> read_digest(capnp::Data::Reader bytes);

// All of this: Threads: the loop's.

struct UploadLimits {
  uint64_t bytes = 64u << 20;                  // of one blob
  std::chrono::milliseconds deadline{60'000};  // from its first byte to its last
};

// The receiving end of an upload: resource_exhausted at once if the blob is too large. `take` gets
// the blob, once, when it is whole and its SHA-256 is the promised one; its Status is what the peer
// hears. Memory grows with the bytes that come, out of `budget`, and is given back when the peer
// drops the capability or the deadline passes.
Result<wire::Upload::Client> receive_upload(const BlobInfo& info, const UploadLimits& limits,
                                            std::shared_ptr<ByteBudget> budget, kj::Timer& timer,
                                            std::function<Status(Blob)> take);
// The same for a taker that works elsewhere, on disk for instance: the blob counts against the
// budget until its promise is kept.
Result<wire::Upload::Client> receive_upload_elsewhere(
    const BlobInfo& info, const UploadLimits& limits, std::shared_ptr<ByteBudget> budget,
    kj::Timer& timer, std::function<kj::Promise<Status>(Blob)> take);

// The sending end. Ok: the peer has taken the blob.
kj::Promise<Status> upload(wire::Upload::Client to, std::shared_ptr<const Blob> blob);

// The same in steps, for a blob that is never whole in memory: its next bytes, of which some may be
// on their way when the promise is kept; and its end.
kj::Promise<void> write_bytes(wire::Upload::Client to, uint64_t offset,
                              std::shared_ptr<const Blob> bytes);
kj::Promise<Status> finish_upload(wire::Upload::Client to);

// Makes a call whose answer is an Outcome(Upload), and sends the blob there.
template <typename Request>
kj::Promise<Status> send_blob(Request request, std::shared_ptr<const Blob> blob) {
  return request.send().then([blob = std::move(blob)](auto&& response) -> kj::Promise<Status> {
    auto outcome = response.getOutcome();
    if (outcome.isError()) return read_status(outcome.getError());
    return upload(outcome.getOk(), blob);
  });
}

// A blob for others to read. It is held as long as they hold the capability.
wire::Download::Client offer_download(std::shared_ptr<const Blob> blob);

// Reads what was described so. resource_exhausted if it is more than `max_bytes`, internal if the
// bytes are not those of the digest.
kj::Promise<Result<Blob>> download(wire::Download::Client from, const BlobInfo& info,
                                   uint64_t max_bytes);

}  // namespace leat
