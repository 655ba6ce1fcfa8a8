#include "daemon/jobs/upload_account.h"

#include <algorithm>
#include <utility>

#include "daemon/jobs/table_context.h"
#include "devices/base/text.h"

namespace leat {
namespace {

uint64_t sum(const UploadAccount::Sizes& sizes) {
  uint64_t bytes = 0;
  for (const auto& [_, size] : sizes) bytes += size;
  return bytes;
}

// The difference cannot wrap, as a sum could: the size is what a client declares.
bool fits(uint64_t size, uint64_t used, uint64_t most) {
  return size <= most && used <= most - size;
}

// The hash alone is what a client says: it could send any number of other bytes under it.
bool has_file(const UploadAccount::Sizes& files, const std::string& name, uint64_t size) {
  const auto found = files.find(name);
  return found != files.end() && found->second == size;
}

}  // namespace

class UploadAccount::Reservation {
 public:
  Reservation(std::shared_ptr<UploadAccount> account, uint64_t number)
      : account_(std::move(account)), number_(number) {}
  ~Reservation() { account_->end(number_); }
  Reservation(const Reservation&) = delete;
  Reservation& operator=(const Reservation&) = delete;

 private:
  const std::shared_ptr<UploadAccount> account_;
  const uint64_t number_;
};

Result<std::shared_ptr<void>> UploadAccount::reserve(const BlobUpload& asked) {
  if (quotas_.uploads == 0 && quotas_.user_uploads == 0) return std::shared_ptr<void>();
  const UnderWay upload{to_hex(asked.sha256), asked.size, asked.user};
  const std::lock_guard lock(mutex_);
  LEAT_ASSIGN_OR_RETURN(const Sizes there, blobs_.sizes());
  LEAT_RETURN_IF_ERROR(check_all(upload, there));
  LEAT_RETURN_IF_ERROR(check_user(upload, there));
  under_way_.emplace(++begun_, upload);
  return std::shared_ptr<void>(std::make_shared<Reservation>(shared_from_this(), begun_));
}

uint64_t UploadAccount::under_way(const std::string* user) const {
  uint64_t bytes = 0;
  for (const auto& [_, each] : under_way_) {
    if (user == nullptr || *user == each.user) bytes += each.size;
  }
  return bytes;
}

// A copy of a file that is there replaces it in the end. Only one at a time goes unchecked, since
// each takes room while it is under way.
bool UploadAccount::takes_no_more(const Sizes& there, const UnderWay& upload) const {
  return has_file(there, upload.name, upload.size) &&
         std::none_of(under_way_.begin(), under_way_.end(),
                      [&](const auto& each) { return each.second.name == upload.name; });
}

Status UploadAccount::check_all(const UnderWay& upload, const Sizes& there) const {
  const uint64_t most = quotas_.uploads;
  if (most == 0 || takes_no_more(there, upload)) return {};
  const uint64_t has = sum(there), coming = under_way(nullptr);
  if (fits(upload.size, has + coming, most)) return {};
  return resource_exhausted(cat("upload of ", human_bytes(upload.size), ": expected at most ",
                                human_bytes(most), " of all files together (quotas.uploads), ",
                                human_bytes(has), " are there, and ", human_bytes(coming),
                                " under way"));
}

Status UploadAccount::check_user(const UnderWay& upload, const Sizes& there) {
  const uint64_t most = quotas_.user_uploads;
  if (most == 0) return {};
  LEAT_ASSIGN_OR_RETURN(const Sizes files, files_of(upload.user, there));
  if (takes_no_more(files, upload)) return {};
  const uint64_t has = sum(files), coming = under_way(&upload.user);
  if (fits(upload.size, has + coming, most)) return {};
  return resource_exhausted(cat("upload of ", human_bytes(upload.size), ": ",
                                user_for_people(upload.user), " may have ", human_bytes(most),
                                " of files together (quotas.user_uploads), and has ",
                                human_bytes(has), ", with ", human_bytes(coming), " under way"));
}

Result<std::shared_ptr<void>> UploadAccount::reserve_named(const std::string& user,
                                                           std::span<const AttachedFile> files) {
  const uint64_t most = quotas_.user_uploads;
  if (most == 0 || files.empty()) return std::shared_ptr<void>();
  Sizes named;
  for (const AttachedFile& file : files) named[to_hex(file.sha256)] = file.size;
  const std::lock_guard lock(mutex_);
  LEAT_ASSIGN_OR_RETURN(const Sizes there, blobs_.sizes());
  LEAT_ASSIGN_OR_RETURN(Sizes all, files_of(user, there));
  const uint64_t has = sum(all);
  all.insert(named.begin(), named.end());
  const uint64_t coming = under_way(&user);
  if (fits(sum(all) - has, has + coming, most)) {
    const auto held = std::make_shared<Submit>(Submit{user, std::move(named)});
    submits_.push_back(held);
    return std::shared_ptr<void>(held);
  }
  return resource_exhausted(cat("submit with files of ", human_bytes(sum(named)), ": ",
                                user_for_people(user), " may have ", human_bytes(most),
                                " of files together (quotas.user_uploads), and has ",
                                human_bytes(has), ", with ", human_bytes(coming), " under way"));
}

Result<UploadAccount::Sizes> UploadAccount::files_of(const std::string& user, const Sizes& there) {
  Sizes& uploaded = uploaded_[user];
  // A file that no job has named in time is removed.
  std::erase_if(uploaded, [&](const auto& each) { return !there.contains(each.first); });
  LEAT_ASSIGN_OR_RETURN(Sizes files, named_(user));
  files.insert(uploaded.begin(), uploaded.end());
  std::erase_if(submits_, [](const auto& each) { return each.expired(); });
  for (const auto& each : submits_) {
    const auto submit = each.lock();
    if (submit && submit->user == user) files.insert(submit->files.begin(), submit->files.end());
  }
  if (uploaded.empty()) uploaded_.erase(user);
  return files;
}

void UploadAccount::end(uint64_t number) {
  const std::lock_guard lock(mutex_);
  const auto found = under_way_.find(number);
  if (found == under_way_.end()) return;
  UnderWay ended = std::move(found->second);
  under_way_.erase(found);
  Sha256Digest digest{};
  if (!from_hex(ended.name, digest)) return;
  // One that was lost has left no file. If another upload has, the file counts for this user, too.
  const auto there = blobs_.has(digest, ended.size);
  if (there.ok() && *there) uploaded_[ended.user][ended.name] = ended.size;
}

}  // namespace leat
