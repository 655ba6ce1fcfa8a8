#include "ops/data/stores/s3_upload.h"

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "devices/base/text.h"
#include "ops/data/stores/s3_list.h"
#include "ops/data/stores/store_address.h"

namespace leat {
namespace {

constexpr uint64_t kMostAnswer = uint64_t{1} << 20;
// S3 takes at most 10,000 parts. Those behind the first thousands are twice, four and eight times
// as large, so that an object of parts of 8 MiB may have 500 GiB.
constexpr size_t kPartsOfOneSize = 1000;
constexpr size_t kMostDoublings = 3;
constexpr size_t kMostParts = 10'000;
// For the one request that gives an upload up.
constexpr StoreTimes kGiveUp{std::chrono::milliseconds(2000), std::chrono::milliseconds(2000),
                             false};

using Query = std::vector<std::pair<std::string, std::string>>;

class S3Upload final : public WritableFile {
 public:
  S3Upload(std::shared_ptr<StoreParts> parts, std::string path, StoreAddress address)
      : parts_(std::move(parts)), path_(std::move(path)), address_(std::move(address)) {}
  ~S3Upload() override {
    if (upload_.empty()) return;
    // The object is not written, whatever the store answers. A caller that was told to stop waits
    // no longer than this.
    (void)ask_store(
        *parts_, path_, kGiveUp,
        [&] {
          return address_.object("DELETE", {{"uploadId", upload_}});
        },
        kMostAnswer, [](const UrlAnswer&) { return Status(); });
  }

  Status append(std::span<const std::byte> bytes) override {
    while (!bytes.empty()) {
      LEAT_RETURN_IF_ERROR(failed_);
      const size_t amount = std::min<uint64_t>(bytes.size(), part_bytes() - held_.size());
      held_.insert(held_.end(), bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(amount));
      bytes = bytes.subspan(amount);
      if (held_.size() == part_bytes()) failed_ = send_part();
    }
    return failed_;
  }

  Status sync() override {
    return unimplemented(
        cat("'", path_, "': expected close(): a store keeps a file when it is whole"));
  }

  Status close() override {
    LEAT_RETURN_IF_ERROR(failed_);  // what it holds is not all
    if (etags_.empty()) {
      return ask([&] { return address_.object("PUT", {}, held_); },
                 [](const UrlAnswer& answer) {
                   return answer.status == 200 ? Status() : error_of_write(answer);
                 });
    }
    if (!held_.empty()) LEAT_RETURN_IF_ERROR(send_part());
    std::string list;
    for (size_t i = 0; i < etags_.size(); ++i)
      list += cat("<Part><PartNumber>", i + 1, "</PartNumber><ETag>", etags_[i], "</ETag></Part>");
    const std::string text = cat("<CompleteMultipartUpload>", list, "</CompleteMultipartUpload>");
    LEAT_RETURN_IF_ERROR(ask(
        [&] {
          return address_.object("POST", {{"uploadId", upload_}}, std::as_bytes(std::span(text)));
        },
        [](const UrlAnswer& answer) -> Status {
          // Also after a lost answer, when the object is there: to write it once more does no harm.
          if (is_missing(answer.status))
            return failed_precondition("the store no longer knows the upload of this file");
          if (answer.status != 200) return error_of_write(answer);
          // S3 may answer first, and fail later.
          if (!s3_element(answer.body, "ETag").empty()) return {};
          return unavailable(cat("expected that the store puts the parts together, received '",
                                 s3_element(answer.body, "Message").substr(0, 500), "'"));
        }));
    upload_.clear();
    return {};
  }

 private:
  uint64_t part_bytes() const {
    const size_t doublings = std::min(etags_.size() / kPartsOfOneSize, kMostDoublings);
    return parts_->options.part_bytes << doublings;
  }

  Status ask(const std::function<UrlRequest()>& request,
             const std::function<Status(UrlAnswer)>& use) const {
    const StoreTimes times{parts_->options.upload, parts_->options.upload_patience};
    return ask_store(*parts_, path_, times, request, kMostAnswer, use);
  }

  Status begin() {
    return ask(
        [&] {
          return address_.object("POST", {{"uploads", ""}});
        },
        [&](const UrlAnswer& answer) -> Status {
          if (answer.status != 200) return error_of_write(answer);
          upload_ = s3_element(answer.body, "UploadId");
          if (!upload_.empty()) return {};
          return invalid_argument("expected the id of an upload, received another answer");
        });
  }

  Status send_part() {
    if (upload_.empty()) LEAT_RETURN_IF_ERROR(begin());
    if (etags_.size() == kMostParts)
      return resource_exhausted(cat("'", path_, "': expected a file of fewer bytes"));
    const Query query{{"partNumber", std::to_string(etags_.size() + 1)}, {"uploadId", upload_}};
    std::string etag;
    LEAT_RETURN_IF_ERROR(ask([&] { return address_.object("PUT", query, held_); },
                             [&](const UrlAnswer& answer) -> Status {
                               if (answer.status != 200) return error_of_write(answer);
                               etag = header_of(answer, "etag");
                               if (!etag.empty()) return {};
                               return invalid_argument(
                                   "expected the ETag of a part, received none");
                             }));
    etags_.push_back(std::move(etag));
    held_.clear();
    return {};
  }

  const std::shared_ptr<StoreParts> parts_;
  const std::string path_;
  const StoreAddress address_;
  Bytes held_;                      // of the part that is not sent yet
  std::string upload_;              // the id of an upload in parts, until it is whole
  std::vector<std::string> etags_;  // of the parts that the store has
  Status failed_;                   // of a part: there is no whole object any more
};

}  // namespace

Result<std::unique_ptr<WritableFile>> open_s3_upload(std::shared_ptr<StoreParts> parts,
                                                     const std::string& path) {
  LEAT_ASSIGN_OR_RETURN(StoreAddress address, StoreAddress::make(path, parts->options.variable));
  return std::unique_ptr<WritableFile>(
      std::make_unique<S3Upload>(std::move(parts), path, std::move(address)));
}

Status remove_s3(StoreParts& parts, const std::string& path) {
  LEAT_ASSIGN_OR_RETURN(const StoreAddress address,
                        StoreAddress::make(path, parts.options.variable));
  const StoreTimes times{parts.options.request, parts.options.patience};
  return ask_store(
      parts, path, times, [&] { return address.object("DELETE", {}); }, kMostAnswer,
      [](const UrlAnswer& answer) {
        const bool gone = answer.status == 200 || answer.status == 204 || is_missing(answer.status);
        return gone ? Status() : error_of_write(answer);
      });
}

}  // namespace leat
