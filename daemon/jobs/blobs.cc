#include "daemon/jobs/blobs.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "devices/base/text.h"

namespace leat {
namespace {

// So that what is left to sync in the end takes little time.
constexpr uint64_t kSyncEvery = 64u << 20;
// The end of the names of blobs that are being written.
constexpr std::string_view kTemporary = ".tmp";

}  // namespace

// On its way --------------------------------------------------------------------------------------

ArrivingBlob::ArrivingBlob(Files& files, std::string path, std::string temporary,
                           const Sha256Digest& sha256, uint64_t size,
                           std::unique_ptr<WritableFile> file)
    : files_(files),
      path_(std::move(path)),
      temporary_(std::move(temporary)),
      sha256_(sha256),
      size_(size),
      file_(std::move(file)) {}

Result<std::unique_ptr<ArrivingBlob>> ArrivingBlob::begin(Files& files, std::string path,
                                                          std::string temporary,
                                                          const Sha256Digest& sha256,
                                                          uint64_t size) {
  LEAT_ASSIGN_OR_RETURN(auto file, files.create(temporary));
  return std::unique_ptr<ArrivingBlob>(new ArrivingBlob(
      files, std::move(path), std::move(temporary), sha256, size, std::move(file)));
}

ArrivingBlob::~ArrivingBlob() {
  // The file is closed before it is removed.
  file_.reset();
  if (there_) (void)files_.remove(temporary_);  // what stays goes when the journal is opened
}

Status ArrivingBlob::append(std::span<const std::byte> bytes) {
  // `received_` never exceeds `size_`, so the difference cannot wrap.
  if (bytes.size() > size_ - received_) {
    return invalid_argument(cat("upload: expected ", size_, " bytes, received more"));
  }
  // The last bytes of the magic are not written, so no encrypted file is ever there.
  if (received_ < start_.size()) {
    const auto at = static_cast<size_t>(received_);
    const size_t count = std::min(bytes.size(), start_.size() - at);
    std::copy_n(bytes.begin(), count, start_.begin() + static_cast<ptrdiff_t>(at));
    if (begins_sealed(std::span(start_).first(at + count))) return refuse_sealed("upload");
  }
  LEAT_RETURN_IF_ERROR(file_->append(bytes));
  hash_.update(bytes);
  received_ += bytes.size();
  unsynced_ += bytes.size();
  if (unsynced_ < kSyncEvery) return {};
  unsynced_ = 0;
  return file_->sync();
}

Status ArrivingBlob::finish() {
  if (received_ != size_) {
    return invalid_argument(cat("upload: expected ", size_, " bytes, received ", received_));
  }
  const Sha256Digest received = hash_.finish();
  if (received != sha256_) {
    return invalid_argument(cat("upload: expected bytes of SHA-256 ", to_hex(sha256_),
                                ", received ", to_hex(received)));
  }
  return publish().while_doing(cat("writing '", path_, "'"));
}

Status ArrivingBlob::publish() {
  // The order keeps the promise of a whole file or none: the bytes are on disk before the name
  // exists, and the name is on disk before publish() returns ok.
  LEAT_RETURN_IF_ERROR(file_->sync());
  LEAT_RETURN_IF_ERROR(file_->close());
  LEAT_RETURN_IF_ERROR(files_.rename(temporary_, path_));
  there_ = false;
  return files_.sync_directory(directory_of(path_));
}

// All of them -------------------------------------------------------------------------------------

Result<std::unique_ptr<ArrivingBlob>> Blobs::begin(const Sha256Digest& digest, uint64_t size) {
  LEAT_RETURN_IF_ERROR(files_.make_directories(folder_));
  return ArrivingBlob::begin(files_, path(digest), temporary(digest), digest, size);
}

Status Blobs::put(const Sha256Digest& digest, std::span<const std::byte> bytes) {
  LEAT_ASSIGN_OR_RETURN(const auto blob, begin(digest, bytes.size()));
  LEAT_RETURN_IF_ERROR(blob->append(bytes));
  return blob->finish();
}

Status Blobs::copy(const ReadableFile& file, const Sha256Digest& digest) {
  LEAT_ASSIGN_OR_RETURN(const bool there, has(digest, file.size()));
  if (there) return {};
  LEAT_ASSIGN_OR_RETURN(const auto blob, begin(digest, file.size()));
  LEAT_RETURN_IF_ERROR(
      read_in_pieces(file, [&](std::span<const std::byte> piece) { return blob->append(piece); }));
  return blob->finish();
}

Status Blobs::share(const ReadableFile& file, const Sha256Digest& digest) {
  LEAT_ASSIGN_OR_RETURN(const bool there, has(digest, file.size()));
  if (there) return {};
  LEAT_RETURN_IF_ERROR(files_.make_directories(folder_));
  const std::string name = temporary(digest);
  // The link gets a temporary name first, because link() fails on an existing name and rename()
  // does not.
  if (!files_.link(file.path(), name).ok()) return copy(file, digest);
  if (Status status = files_.rename(name, path(digest)); !status.ok()) {
    (void)files_.remove(name);
    return status;
  }
  return files_.sync_directory(folder_);
}

// RowWriter calls this for each file of a submit. It compares the size only, since a hash of the
// bytes would hold up the journal's thread for seconds.
Result<bool> Blobs::has(const Sha256Digest& digest, uint64_t size) const {
  LEAT_ASSIGN_OR_RETURN(const bool there, files_.exists(path(digest)));
  if (!there) return false;
  LEAT_ASSIGN_OR_RETURN(const auto file, files_.open(path(digest)));
  return file->size() == size;
}

std::string Blobs::path(const Sha256Digest& digest) const {
  return cat(folder_, "/", to_hex(digest));
}

std::string Blobs::temporary(const Sha256Digest& digest) {
  // The counter lets two uploads of one file run at the same time: the last rename wins, and both
  // have the same bytes.
  return cat(path(digest), ".", begun_.fetch_add(1), kTemporary);
}

Result<std::vector<std::string>> Blobs::names() const {
  LEAT_ASSIGN_OR_RETURN(const bool there, files_.exists(folder_));
  if (!there) return std::vector<std::string>();
  return files_.list(folder_);
}

Result<std::map<std::string, uint64_t>> Blobs::sizes() const {
  LEAT_ASSIGN_OR_RETURN(const auto all, names());
  std::map<std::string, uint64_t> sizes;
  for (const std::string& name : all) {
    if (name.ends_with(kTemporary)) continue;
    const std::string path = cat(folder_, "/", name);
    if (const auto file = files_.open(path); file.ok()) {
      sizes[name] = (*file)->size();
      continue;
    }
    // An encrypted one whose key is not here takes its room all the same. One that is gone
    // meanwhile takes none.
    std::error_code gone;
    const uint64_t size = std::filesystem::file_size(path, gone);
    if (!gone) sizes[name] = size;
  }
  return sizes;
}

Status Blobs::remove(const std::string& name) { return files_.remove(cat(folder_, "/", name)); }

}  // namespace leat
