// Blobs that are larger than one message: graphs, plans, logs. They travel in pieces, over the
// interfaces Upload and Download of common.capnp. Includes Cap'n Proto: for .cc files.
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

// The size of a piece that an end sends: the fastest on loopback (5.0 GB/s with `-> stream`; 64 KiB
// reach 2.8). And the largest piece that an end takes.
inline constexpr size_t kTransferBytes = 256u << 10;
inline constexpr size_t kMaxTransferBytes = 1u << 20;

// A whole blob in memory.
using Blob = std::vector<std::byte>;

// The facts about a blob that the peer learns before its first byte.
struct BlobInfo {
  uint64_t size = 0;
  Sha256Digest sha256{};
};
// The size and the SHA-256 of a blob.
BlobInfo describe(const Blob& blob);
// Reads a SHA-256 from a Data field of a message. invalid_argument if it is not 32 bytes.
Result<Sha256Digest> read_digest(capnp::Data::Reader bytes);

// The most that an upload may cost its receiver.
//
// Threads, for everything from here on: the loop's.
struct UploadLimits {
  // Of one blob.
  uint64_t bytes = 64u << 20;
  // From the first byte to the last.
  std::chrono::milliseconds deadline{60'000};
};

// The receiving end of an upload. A blob that is too large is resource_exhausted at once. `take`
// gets the blob once, when it is whole and its SHA-256 is the promised one; its Status is the
// answer to the peer. The memory grows with the bytes that come, out of `budget`. It is given back
// when the peer drops the capability or the deadline passes.
Result<wire::Upload::Client> receive_upload(const BlobInfo& info, const UploadLimits& limits,
                                            std::shared_ptr<ByteBudget> budget, kj::Timer& timer,
                                            std::function<Status(Blob)> take);
// The same for a taker that works elsewhere, for instance on disk. The blob counts against the
// budget until the taker's promise is fulfilled.
Result<wire::Upload::Client> receive_upload_elsewhere(
    const BlobInfo& info, const UploadLimits& limits, std::shared_ptr<ByteBudget> budget,
    kj::Timer& timer, std::function<kj::Promise<Status>(Blob)> take);

// The sending end. Ok if the peer has taken the blob.
kj::Promise<Status> upload(wire::Upload::Client to, std::shared_ptr<const Blob> blob);

// The sending end in steps, for a blob that is never whole in memory. write_bytes() sends the next
// bytes, some of which may still be on their way when its promise is fulfilled; finish_upload()
// ends the blob and returns the peer's answer.
kj::Promise<void> write_bytes(wire::Upload::Client to, uint64_t offset,
                              std::shared_ptr<const Blob> bytes);
kj::Promise<Status> finish_upload(wire::Upload::Client to);

// Makes a call whose answer is an Outcome(Upload), and sends the blob to that capability.
template <typename Request>
kj::Promise<Status> send_blob(Request request, std::shared_ptr<const Blob> blob) {
  return request.send().then([blob = std::move(blob)](auto&& response) -> kj::Promise<Status> {
    auto outcome = response.getOutcome();
    if (outcome.isError()) return read_status(outcome.getError());
    return upload(outcome.getOk(), blob);
  });
}

// Offers a blob for others to read. It stays in memory as long as they hold the capability.
wire::Download::Client offer_download(std::shared_ptr<const Blob> blob);

// Reads the blob that `info` describes. resource_exhausted if it is larger than `max_bytes`,
// internal if the bytes have another digest.
kj::Promise<Result<Blob>> download(wire::Download::Client from, const BlobInfo& info,
                                   uint64_t max_bytes);

}  // namespace leat
