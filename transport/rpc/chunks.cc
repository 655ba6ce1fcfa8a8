#include "transport/rpc/chunks.h"

#include <algorithm>

#include "devices/base/text.h"
#include "transport/rpc/call.h"
#include "transport/rpc/service.h"

namespace leat {
namespace {

Status check_digest(const Sha256Digest& got, const Sha256Digest& expected) {
  if (got == expected) return {};
  return invalid_argument(
      cat("blob's sha256: expected ", to_hex(expected), ", received ", to_hex(got)));
}

void append(Blob& blob, capnp::Data::Reader bytes) {
  const auto* begin = reinterpret_cast<const std::byte*>(bytes.begin());
  blob.insert(blob.end(), begin, begin + bytes.size());
}

// Collects the bytes of one upload, and gives the blob to its taker.
class UploadSink final : public Service<wire::Upload> {
 public:
  UploadSink(const BlobInfo& info, const UploadLimits& limits, std::shared_ptr<ByteBudget> budget,
             kj::Timer& timer, std::function<kj::Promise<Status>(Blob)> take)
      : info_(info),
        budget_(std::move(budget)),
        charge_(*budget_),
        take_(std::move(take)),
        expiry_(timer.afterDelay(to_kj(limits.deadline))
                    .then([this, limits] {
                      give_up(deadline_exceeded(
                          cat("upload not finished within ", limits.deadline.count(), " ms")));
                    })
                    .eagerlyEvaluate(nullptr)) {}

 protected:
  kj::Promise<void> write(WriteContext context) override {
    const auto params = context.getParams();
    accept(params.getOffset(), params.getBytes());
    return kj::READY_NOW;
  }

  kj::Promise<void> finish(FinishContext context) override {
    return finish_blob().then([this, context, self = thisCap()](Status status) mutable {
      (void)charge_.set(0);
      // The memory counts until the taker is done with the blob.
      answer(status, context.getResults().initOutcome());
    });
  }

 private:
  // Keeps the first error for finish(), because a write of a stream has no answer.
  void accept(uint64_t offset, capnp::Data::Reader bytes) {
    if (!status_.ok()) return;
    // A sender that sends more than it promised, or out of order, gets nothing more accepted.
    if (offset != blob_.size() || bytes.size() > kMaxTransferBytes ||
        bytes.size() > info_.size - blob_.size()) {
      return give_up(invalid_argument(cat("upload of ", info_.size, " bytes: expected at most ",
                                          kMaxTransferBytes, " bytes at offset ", blob_.size(),
                                          ", received ", bytes.size(), " at ", offset)));
    }
    const uint64_t needed = blob_.size() + bytes.size();
    // The capacity doubles with what has come, up to the promised size: a promise alone costs no
    // memory.
    if (needed > blob_.capacity()) {
      // The charge comes before the memory, so that all connections together stay within the
      // budget.
      const uint64_t room =
          std::min<uint64_t>(info_.size, std::max<uint64_t>(2 * blob_.capacity(), needed));
      if (!charge_.set(room)) {
        return give_up(
            resource_exhausted(cat("no memory left for an upload of ", info_.size, " bytes")));
      }
      blob_.reserve(room);
    }
    append(blob_, bytes);
    hash_.update(std::span(blob_).last(bytes.size()));  // so that finish() is quick
  }

  kj::Promise<Status> finish_blob() {
    if (!status_.ok()) return status_;
    if (blob_.size() != info_.size) {
      return Status(invalid_argument(
          cat("upload: expected ", info_.size, " bytes, received ", blob_.size())));
    }
    // From here on a second finish(), and further writes, fail.
    status_ = failed_precondition("upload was finished before");
    Blob blob = std::move(blob_);
    Status status = check_digest(hash_.finish(), info_.sha256);
    if (!status.ok()) return status;
    return take_(std::move(blob));
  }

  // Ends the upload with an error, and gives the memory back at once.
  void give_up(Status why) {
    status_ = std::move(why);
    blob_ = Blob();
    (void)charge_.set(0);
  }

  const BlobInfo info_;
  const std::shared_ptr<ByteBudget> budget_;
  ByteCharge charge_;
  const std::function<kj::Promise<Status>(Blob)> take_;
  Status status_;
  Blob blob_;
  Sha256 hash_;  // of blob_
  kj::Promise<void> expiry_;
};

// Offers a blob for reading. Reads share the blob and change nothing.
class DownloadSource final : public Service<wire::Download> {
 public:
  explicit DownloadSource(std::shared_ptr<const Blob> blob) : blob_(std::move(blob)) {}

 protected:
  kj::Promise<void> read(ReadContext context) override {
    const uint64_t offset = context.getParams().getOffset();
    const uint64_t size = context.getParams().getSize();
    auto outcome = context.getResults().initOutcome();
    if (size > kMaxTransferBytes || offset > blob_->size() || size > blob_->size() - offset) {
      write_status(
          invalid_argument(cat("read of ", size, " bytes at offset ", offset, ": expected at most ",
                               kMaxTransferBytes, " bytes within ", blob_->size())),
          outcome.initError());
    } else {
      outcome.setOk(kj::arrayPtr(reinterpret_cast<const kj::byte*>(blob_->data()) + offset, size));
    }
    return kj::READY_NOW;
  }

 private:
  const std::shared_ptr<const Blob> blob_;
};

// Writes the bytes that follow the first `done`. The whole blob begins at `offset`.
kj::Promise<void> write_from(wire::Upload::Client to, uint64_t offset,
                             std::shared_ptr<const Blob> bytes, size_t done) {
  // The method is a stream: its promise is fulfilled when the window has room for more, and not
  // when the peer has taken the bytes. So this loop keeps about one window in flight.
  if (done == bytes->size()) return kj::READY_NOW;
  const size_t size = std::min(kTransferBytes, bytes->size() - done);
  auto request = to.writeRequest();
  request.setOffset(offset + done);
  request.setBytes(kj::arrayPtr(reinterpret_cast<const kj::byte*>(bytes->data()) + done, size));
  return request.send().then([to, offset, bytes = std::move(bytes), done, size]() mutable {
    return write_from(kj::mv(to), offset, std::move(bytes), done + size);
  });
}

// Reads what follows the bytes that `blob` has, one piece after the other.
kj::Promise<Status> read_from(wire::Download::Client from, std::shared_ptr<Blob> blob,
                              uint64_t size) {
  if (blob->size() == size) return Status();
  auto request = from.readRequest();
  const uint64_t wanted = std::min<uint64_t>(kTransferBytes, size - blob->size());
  request.setOffset(blob->size());
  request.setSize(static_cast<uint32_t>(wanted));
  return request.send().then(
      [from, blob = std::move(blob), size, wanted](auto&& response) mutable -> kj::Promise<Status> {
        const auto outcome = response.getOutcome();
        if (Status status = status_of(outcome); !status.ok()) return status;
        // A peer that answers with fewer bytes could otherwise keep this loop going for ever.
        if (outcome.getOk().size() != wanted) {
          return internal_error(cat("read of ", wanted, " bytes at offset ", blob->size(),
                                    ": received ", outcome.getOk().size()));
        }
        append(*blob, outcome.getOk());
        return read_from(kj::mv(from), std::move(blob), size);
      });
}

}  // namespace

BlobInfo describe(const Blob& blob) { return {.size = blob.size(), .sha256 = sha256(blob)}; }

Result<Sha256Digest> read_digest(capnp::Data::Reader bytes) {
  Sha256Digest digest;
  if (bytes.size() != digest.size()) {
    return invalid_argument(
        cat("sha256: expected ", digest.size(), " bytes, received ", bytes.size()));
  }
  std::copy(bytes.begin(), bytes.end(), digest.begin());
  return digest;
}

Result<wire::Upload::Client> receive_upload(const BlobInfo& info, const UploadLimits& limits,
                                            std::shared_ptr<ByteBudget> budget, kj::Timer& timer,
                                            std::function<Status(Blob)> take) {
  // A taker that answers at once is one whose promise is fulfilled already.
  const auto promised = [take = std::move(take)](Blob blob) -> kj::Promise<Status> {
    return take(std::move(blob));
  };
  return receive_upload_elsewhere(info, limits, std::move(budget), timer, promised);
}

Result<wire::Upload::Client> receive_upload_elsewhere(
    const BlobInfo& info, const UploadLimits& limits, std::shared_ptr<ByteBudget> budget,
    kj::Timer& timer, std::function<kj::Promise<Status>(Blob)> take) {
  if (info.size > limits.bytes) {
    return resource_exhausted(
        cat("upload of ", info.size, " bytes: expected at most ", limits.bytes));
  }
  return wire::Upload::Client(
      kj::heap<UploadSink>(info, limits, std::move(budget), timer, std::move(take)));
}

kj::Promise<Status> upload(wire::Upload::Client to, std::shared_ptr<const Blob> blob) {
  // An error of a write reaches the sender as the answer of finish().
  return write_bytes(to, 0, std::move(blob)).then([to]() mutable {
    return finish_upload(kj::mv(to));
  });
}

kj::Promise<void> write_bytes(wire::Upload::Client to, uint64_t offset,
                              std::shared_ptr<const Blob> bytes) {
  return write_from(kj::mv(to), offset, std::move(bytes), 0);
}

kj::Promise<Status> finish_upload(wire::Upload::Client to) {
  return to.finishRequest().send().then(
      [](auto&& response) { return status_of(response.getOutcome()); });
}

wire::Download::Client offer_download(std::shared_ptr<const Blob> blob) {
  return kj::heap<DownloadSource>(std::move(blob));
}

kj::Promise<Result<Blob>> download(wire::Download::Client from, const BlobInfo& info,
                                   uint64_t max_bytes) {
  if (info.size > max_bytes) {
    return Result<Blob>(
        resource_exhausted(cat("download of ", info.size, " bytes: expected at most ", max_bytes)));
  }
  auto blob = std::make_shared<Blob>();
  return read_from(kj::mv(from), blob, info.size).then([blob, info](Status status) -> Result<Blob> {
    if (!status.ok()) return status;
    // The peer said the digest itself, so a difference is a fault of that end or of the way.
    if (Status intact = check_digest(sha256(*blob), info.sha256); !intact.ok()) {
      return internal_error(intact.message());
    }
    return std::move(*blob);
  });
}

}  // namespace leat
