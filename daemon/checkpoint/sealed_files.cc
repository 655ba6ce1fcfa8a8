#include "daemon/checkpoint/sealed_files.h"

#include <algorithm>
#include <array>
#include <mutex>
#include <optional>

#include "daemon/base/sealed_magic.h"
#include "daemon/checkpoint/checkpoint_part.h"
#include "daemon/checkpoint/sealed_chunks.h"
#include "daemon/checkpoint/sealed_values.h"
#include "devices/base/text.h"

namespace leat {
namespace {

constexpr std::string_view kStep = "step-";
constexpr std::string_view kDamaged = "damaged-";
constexpr std::string_view kExports = "export";
constexpr uint64_t kSealed = kSealedChunk + kSealedTag;  // bytes of a chunk that is full

std::string_view last_of(std::string_view path) { return path.substr(path.rfind('/') + 1); }

// "weights.safetensors" of "weights.safetensors.4711-0.tmp", the name of a file that is written.
std::string_view without_temporary(std::string_view name) {
  constexpr std::string_view kTemporary = ".tmp";
  if (!name.ends_with(kTemporary)) return name;
  name.remove_suffix(kTemporary.size());
  const size_t dot = name.rfind('.');
  const bool is_count = dot != std::string_view::npos &&
                        name.find_first_not_of("0123456789-", dot + 1) == std::string_view::npos;
  return is_count ? name.substr(0, dot) : name;
}

// "step-00000500" of a checkpoint's folder, also of one that is being written or set aside.
std::string_view step_folder(std::string_view folder) {
  if (folder.starts_with(kTemporaryCheckpoint)) {
    folder.remove_prefix(kTemporaryCheckpoint.size() - kStep.size());
  } else if (folder.starts_with(kDamaged)) {
    folder.remove_prefix(kDamaged.size());
  }
  if (!folder.starts_with(kStep)) return "";
  return folder.substr(0, folder.find_first_not_of("0123456789", kStep.size()));
}

Status no_such_key(const std::string& path, const SealedHeader& header,
                   const CheckpointKeys& keys) {
  std::vector<std::string> names;
  for (const CheckpointKey& key : keys) names.push_back(CheckpointKey::text_of(key.id()));
  return unimplemented(cat(
      "'", path, "' is encrypted: expected its key ", CheckpointKey::text_of(header.key),
      " (--checkpoint-key, LEAT_CHECKPOINT_KEY_FILE; of a master checkpoint_key_file), received ",
      names.empty() ? "none" : join(names, " and ")));
}

// A file that is decrypted as it is read.
class OpenSealedFile final : public ReadableFile {
 public:
  static Result<std::unique_ptr<ReadableFile>> open(std::unique_ptr<ReadableFile> file,
                                                    const CheckpointKeys& keys) {
    const std::string& path = file->path();
    LEAT_ASSIGN_OR_RETURN(const SealedHeader header, read_sealed_header(*file));
    const std::string role = sealed_role(path);
    // A file of any other name, such as a blob, may be one of a run, and no value of a database.
    if (role.empty() ? header.role.starts_with(kSealedValueRole) : role != header.role) {
      return invalid_argument(cat("'", path, "': expected the encrypted file ",
                                  role.empty() ? "" : cat("'", role, "' "), "of a run, received '",
                                  header.role, "'"));
    }
    const auto key = std::find_if(keys.begin(), keys.end(), [&](const CheckpointKey& each) {
      return each.id() == header.key;
    });
    if (key == keys.end()) return no_such_key(path, header, keys);
    LEAT_ASSIGN_OR_RETURN(SealedCipher cipher, SealedCipher::create(*key, header));
    std::unique_ptr<OpenSealedFile> out(
        new OpenSealedFile(std::move(file), header.bytes(), std::move(cipher)));
    // The size is that of the file only if its last chunk is the last one.
    Bytes last(out->chunk_size(out->chunks_ - 1));
    LEAT_RETURN_IF_ERROR(out->read_chunk(out->chunks_ - 1, last));
    return std::unique_ptr<ReadableFile>(std::move(out));
  }

  const std::string& path() const override { return file_->path(); }
  uint64_t size() const override { return size_; }

  Status read(uint64_t offset, std::span<std::byte> out) const override {
    if (out.size() > size_ || offset > size_ - out.size()) {
      return unavailable(cat("'", path(), "': expected ", out.size(), " bytes at ", offset,
                             ", it ends after ", size_));
    }
    Bytes part;
    while (!out.empty()) {
      const uint64_t number = offset / kSealedChunk;
      const auto within = static_cast<size_t>(offset % kSealedChunk);
      const size_t size = chunk_size(number);
      const size_t count = std::min(out.size(), size - within);
      if (count == size) {
        LEAT_RETURN_IF_ERROR(read_chunk(number, out.first(count)));
      } else {
        part.resize(size);
        LEAT_RETURN_IF_ERROR(read_chunk(number, part));
        std::copy_n(part.begin() + static_cast<ptrdiff_t>(within), count, out.begin());
      }
      offset += count;
      out = out.subspan(count);
    }
    return {};
  }

 private:
  OpenSealedFile(std::unique_ptr<ReadableFile> file, size_t header, SealedCipher cipher)
      : file_(std::move(file)), header_(header), cipher_(std::move(cipher)) {
    const uint64_t body = file_->size() - header_;
    chunks_ = std::max<uint64_t>(1, (body + kSealed - 1) / kSealed);
    // Less than the tags is cut off; then the last chunk has too few bytes to be read.
    size_ = body - std::min(body, chunks_ * kSealedTag);
  }

  // Of the plain bytes.
  size_t chunk_size(uint64_t number) const {
    const uint64_t before = number * kSealedChunk;
    return static_cast<size_t>(std::min<uint64_t>(kSealedChunk, size_ - std::min(size_, before)));
  }

  Status read_chunk(uint64_t number, std::span<std::byte> out) const {
    const auto damaged = [&] {
      return invalid_argument(cat("'", path(), "': expected chunk ", number + 1, " of ", chunks_,
                                  " as it was encrypted, it was changed, moved or cut off"));
    };
    const uint64_t at = header_ + number * kSealed;
    Bytes sealed(out.size() + kSealedTag);
    if (file_->size() < at + sealed.size()) return damaged();
    LEAT_RETURN_IF_ERROR(file_->read(at, sealed));
    const std::lock_guard lock(mutex_);
    LEAT_ASSIGN_OR_RETURN(const bool whole,
                          cipher_.open(number, number + 1 == chunks_, sealed, out));
    return whole ? Status() : damaged();
  }

  const std::unique_ptr<ReadableFile> file_;
  const size_t header_;
  uint64_t chunks_ = 0;  // at least one
  uint64_t size_ = 0;    // plain
  mutable std::mutex mutex_;
  mutable SealedCipher cipher_;
};

// A file that is encrypted as it is written.
class NewSealedFile final : public ForwardingFile {
 public:
  NewSealedFile(std::unique_ptr<WritableFile> file, SealedCipher cipher)
      : ForwardingFile(std::move(file)), cipher_(std::move(cipher)) {
    chunk_.reserve(kSealedChunk);
  }

  Status append(std::span<const std::byte> bytes) override {
    if (ended_)
      return failed_precondition("an encrypted file: expected no bytes behind its last chunk");
    while (!bytes.empty()) {
      // A full chunk waits for the next byte, since it may be the last one.
      if (chunk_.size() == kSealedChunk) LEAT_RETURN_IF_ERROR(write_chunk(false));
      const size_t count = std::min(bytes.size(), kSealedChunk - chunk_.size());
      chunk_.insert(chunk_.end(), bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(count));
      bytes = bytes.subspan(count);
    }
    return {};
  }
  Status sync() override {
    LEAT_RETURN_IF_ERROR(end());
    return file_->sync();
  }
  Status close() override {
    LEAT_RETURN_IF_ERROR(end());
    return file_->close();
  }

 private:
  Status end() {
    if (ended_) return failed_;
    ended_ = true;
    return write_chunk(true);
  }

  // After a failure the file stays without its last chunk, so no reader takes it for whole.
  Status write_chunk(bool last) {
    LEAT_RETURN_IF_ERROR(failed_);
    sealed_.clear();
    failed_ = cipher_.seal(number_++, last, chunk_, sealed_);
    if (failed_.ok()) failed_ = file_->append(sealed_);
    chunk_.clear();
    return failed_;
  }

  SealedCipher cipher_;
  Bytes chunk_;   // plain bytes that are not written yet
  Bytes sealed_;  // the chunk before
  uint64_t number_ = 0;
  bool ended_ = false;
  Status failed_;
};

}  // namespace

std::string sealed_role(std::string_view path) {
  const std::string_view name = without_temporary(last_of(path));
  const size_t slash = path.rfind('/');
  const std::string_view folder =
      slash == std::string_view::npos ? "" : last_of(path.substr(0, slash));
  const std::string_view step = step_folder(folder);
  if (!step.empty() && name.starts_with("part-") && name.ends_with(".safetensors"))
    return cat(step, "/", name);
  if (folder == kExports) return cat(kExports, "/", name);
  for (const std::string_view each :
       {"weights.safetensors", "raw_weights.safetensors", "best_weights.safetensors"}) {
    if (name == each) return std::string(name);
  }
  return "";
}

Result<bool> SealedFiles::is_sealed(const ReadableFile& file) const {
  std::array<std::byte, 8> start;
  if (file.size() < start.size()) return false;
  LEAT_RETURN_IF_ERROR(file.read(0, start));
  return begins_sealed(start);
}

Result<std::unique_ptr<ReadableFile>> SealedFiles::open(const std::string& path) {
  LEAT_ASSIGN_OR_RETURN(auto file, files_.open(path));
  LEAT_ASSIGN_OR_RETURN(const bool sealed, is_sealed(*file));
  if (!sealed) return file;
  return OpenSealedFile::open(std::move(file), *keys_);
}

Result<std::unique_ptr<WritableFile>> SealedFiles::create(const std::string& path) {
  std::string role = seals() ? sealed_role(path) : "";
  if (role.empty()) return files_.create(path);
  const CheckpointKey& key = keys_->front();
  LEAT_ASSIGN_OR_RETURN(const SealedHeader header, SealedHeader::create(key, std::move(role)));
  LEAT_ASSIGN_OR_RETURN(SealedCipher cipher, SealedCipher::create(key, header));
  LEAT_ASSIGN_OR_RETURN(auto file, files_.create(path));
  if (const Status begun = file->append(header.print()); !begun.ok()) {
    file.reset();
    (void)files_.remove(path);
    return begun;
  }
  return std::unique_ptr<WritableFile>(
      std::make_unique<NewSealedFile>(std::move(file), std::move(cipher)));
}

Result<std::unique_ptr<WritableFile>> SealedFiles::append_to(const std::string& path,
                                                             uint64_t size) {
  if (seals() && !sealed_role(path).empty()) return Files::append_to(path, size);
  // Plain bytes behind the last chunk of an encrypted file would make it one that is damaged.
  const auto file = files_.open(path);
  LEAT_ASSIGN_OR_RETURN(const bool sealed, file.ok() ? is_sealed(**file) : Result<bool>(false));
  return sealed ? Files::append_to(path, size) : files_.append_to(path, size);
}

Status SealedFiles::link(const std::string& from, const std::string& to) {
  LEAT_ASSIGN_OR_RETURN(const auto file, files_.open(from));
  LEAT_ASSIGN_OR_RETURN(const bool sealed, is_sealed(*file));
  if (!sealed && seals() && !sealed_role(to).empty()) return Files::link(from, to);
  Status linked = files_.link(from, to);
  if (linked.ok() || !sealed) return linked;
  LEAT_ASSIGN_OR_RETURN(const auto copy, files_.create(to));
  const auto fill = [&]() -> Status {
    LEAT_RETURN_IF_ERROR(read_in_pieces(
        *file, [&](std::span<const std::byte> piece) { return copy->append(piece); }));
    LEAT_RETURN_IF_ERROR(copy->sync());
    return copy->close();
  };
  const Status filled = fill();
  if (!filled.ok()) (void)files_.remove(to);
  return filled;
}

}  // namespace leat
