#include <utility>

#include "daemon/master/wire_file_upload.h"
#include "devices/base/text.h"
#include "transport/rpc/call.h"
#include "transport/rpc/service.h"

namespace leat {
namespace {

constexpr auto kOnDisk = std::chrono::seconds(115);  // for what the disk is asked

// The state of an upload that only the disk's thread uses.
struct Arrival {
  std::function<Result<std::unique_ptr<ArrivingBlob>>()> begin;
  std::unique_ptr<ArrivingBlob> blob;  // null: before its first byte

  // An empty file has no byte, so finish() begins it as well.
  Status begun() {
    if (blob != nullptr) return {};
    LEAT_ASSIGN_OR_RETURN(blob, begin());
    return {};
  }
  Status append(const Bytes& bytes) {
    LEAT_RETURN_IF_ERROR(begun());
    return blob->append(bytes);
  }
  Status finish() {
    LEAT_RETURN_IF_ERROR(begun());
    const Status status = blob->finish();
    blob.reset();
    return status;
  }
};

class FileUpload final : public Service<wire::Upload> {
 public:
  explicit FileUpload(FileUploadParts parts)
      : loop_(parts.loop),
        disk_(parts.disk),
        info_(parts.info),
        silence_(parts.silence),
        permit_(std::move(parts.permit)),
        valid_(std::move(parts.valid)),
        arrival_(new Arrival{std::move(parts.begin), nullptr}) {
    await_byte();
  }
  ~FileUpload() { drop(); }

 protected:
  kj::Promise<void> write(WriteContext context) override {
    const auto params = context.getParams();
    const auto bytes = params.getBytes();
    // After an error the rest of the stream is ignored, and finish() answers with the error.
    if (!status_.ok()) return kj::READY_NOW;
    if (params.getOffset() != received_ || bytes.size() > kMaxTransferBytes ||
        bytes.size() > info_.size - received_) {
      give_up(invalid_argument(cat("upload of ", info_.size, " bytes: expected at most ",
                                   kMaxTransferBytes, " bytes at offset ", received_, ", received ",
                                   bytes.size(), " at ", params.getOffset())));
      return kj::READY_NOW;
    }
    if (bytes.size() == 0) return kj::READY_NOW;
    received_ += bytes.size();
    const auto* begin = reinterpret_cast<const std::byte*>(bytes.begin());
    auto appended =
        on_disk("Upload.write", [piece = Bytes(begin, begin + bytes.size())](Arrival& arrival) {
          return arrival.append(piece);
        });
    silent_ = nullptr;
    auto in_time = within(kj::mv(appended), loop_.context().timer, kOnDisk, "Upload.write");
    return in_time.then([this, self = thisCap()](Status status) {
      // `self` keeps this object until the disk has answered, even if the peer drops the
      // capability.
      if (!status.ok()) return give_up(std::move(status));
      // The clock of the peer's silence starts when the disk is done, since the peer waits for it,
      // too.
      if (status_.ok()) await_byte();
    });
  }

  kj::Promise<void> finish(FinishContext context) override {
    return finished().then([this, context, self = thisCap()](Status status) mutable {
      drop();
      answer(status, context.getResults().initOutcome());
    });
  }

 private:
  kj::Promise<Status> finished() {
    if (!status_.ok()) return status_;
    // This is the answer to a second finish(), and it makes later writes do nothing.
    status_ = failed_precondition("upload was finished before");
    silent_ = nullptr;
    if (valid_) {
      if (Status valid = valid_(); !valid.ok()) return valid;
    }
    auto kept = on_disk("Upload.finish", [](Arrival& arrival) { return arrival.finish(); });
    return within(kj::mv(kept), loop_.context().timer, kOnDisk, "Upload.finish");
  }

  template <typename Work>
  kj::Promise<Status> on_disk(std::string_view what, Work work) {
    auto waiting = answered_elsewhere<void>(loop_, what);
    // The queue of the thread keeps the order of the writes.
    (void)disk_.post([work = std::move(work), done = std::move(waiting.done), arrival = arrival_] {
      done(work(*arrival));
    });
    return kj::mv(waiting.promise);
  }

  void await_byte() {
    silent_ =
        loop_.context()
            .timer.afterDelay(to_kj(silence_))
            .then([this] {
              give_up(deadline_exceeded(cat("upload of ", info_.size, " bytes: no byte came for ",
                                            silence_.count(), " ms after ", received_)));
            })
            // KJ runs a continuation only if its promise is awaited, and this one has no other
            // reader.
            .eagerlyEvaluate(nullptr);
  }

  // The first error is kept for finish(): a write of a stream has no answer of its own.
  void give_up(Status why) {
    status_ = std::move(why);
    drop();
  }

  // The file is removed where files are.
  void drop() {
    permit_.reset();
    if (arrival_ == nullptr) return;
    (void)disk_.post([arrival = std::exchange(arrival_, nullptr)] { arrival->blob.reset(); });
  }

  RpcLoop& loop_;
  TaskThread& disk_;
  const BlobInfo info_;
  const std::chrono::milliseconds silence_;
  std::shared_ptr<void> permit_;
  const std::function<Status()> valid_;
  std::shared_ptr<Arrival> arrival_;  // null: it is over
  Status status_;
  uint64_t received_ = 0;
  kj::Promise<void> silent_ = nullptr;
};

}  // namespace

wire::Upload::Client receive_file(FileUploadParts parts) {
  return kj::heap<FileUpload>(std::move(parts));
}

}  // namespace leat
