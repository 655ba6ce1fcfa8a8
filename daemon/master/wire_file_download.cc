#include "daemon/master/wire_file_download.h"

#include <utility>

#include "daemon/master/wire_replies.h"
#include "devices/base/text.h"
#include "transport/rpc/chunks.h"
#include "transport/rpc/service.h"

namespace leat {
namespace {

class FileDownload final : public Service<wire::Download> {
 public:
  FileDownload(std::shared_ptr<const ReadableFile> file, ReadOnDisk read,
               std::shared_ptr<void> permit)
      : file_(std::move(file)), read_(std::move(read)), permit_(std::move(permit)) {}

 protected:
  kj::Promise<void> read(ReadContext context) override {
    const uint64_t offset = context.getParams().getOffset();
    const uint64_t size = context.getParams().getSize();
    // The order of the checks keeps `file_->size() - offset` from wrapping around.
    if (size > kMaxTransferBytes || offset > file_->size() || size > file_->size() - offset) {
      return refuse(
          invalid_argument(cat("read of ", size, " bytes at offset ", offset, ": expected at most ",
                               kMaxTransferBytes, " bytes within ", file_->size())),
          context);
    }
    return reply(read_(file_, offset, size), context, [](const Bytes& bytes, auto outcome) {
      outcome.setOk({reinterpret_cast<const kj::byte*>(bytes.data()), bytes.size()});
    });
  }

 private:
  const std::shared_ptr<const ReadableFile> file_;
  const ReadOnDisk read_;
  const std::shared_ptr<void> permit_;
};

}  // namespace

wire::Download::Client offer_file(std::shared_ptr<const ReadableFile> file, ReadOnDisk read,
                                  std::shared_ptr<void> permit) {
  return kj::heap<FileDownload>(std::move(file), std::move(read), std::move(permit));
}

}  // namespace leat
