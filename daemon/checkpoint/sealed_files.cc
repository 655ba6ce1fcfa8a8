#include "daemon/checkpoint/sealed_files.h"

#include <algorithm>
#include <array>
#include <mutex>
#include <optional>

#include "daemon/base/sealed_magic.h"
#include "daemon/checkpoint/sealed_chunks.h"
#include "devices/base/text.h"

namespace leat {
namespace {

constexpr uint64_t kSealed = kSealedChunk + kSealedTag;  // bytes of a chunk that is full

// Of the bytes behind a header: the number of chunks, and that of the plain bytes in them.
uint64_t chunks_in(uint64_t body) { return std::max<uint64_t>(1, (body + kSealed - 1) / kSealed); }
uint64_t plain_bytes(uint64_t body) { return body - std::min(body, chunks_in(body) * kSealedTag); }

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
                                                    const CheckpointKeys& keys,
                                                    const RunFolders& folders) {
    const std::string& path = file->path();
    LEAT_ASSIGN_OR_RETURN(const SealedHeader header, read_sealed_header(*file));
    if (!folders.allows(path, header.role)) {
      const std::string role = folders.role_of(path);
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
      : file_(std::move(file)),
        header_(header),
        cipher_(std::move(cipher)),
        chunks_(chunks_in(file_->size() - header_)),
        // Less than the tags is cut off; then the last chunk has too few bytes to be read.
        size_(plain_bytes(file_->size() - header_)) {}

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
  mutable std::mutex mutex_;
  mutable SealedCipher cipher_;
  const uint64_t chunks_;  // at least one
  const uint64_t size_;    // plain
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
  // The chunk that waits would be the last one, so it stays in memory until close().
  Status sync() override {
    LEAT_RETURN_IF_ERROR(failed_);
    is_synced_ = true;
    if (number_ > 0) failed_ = file_->sync();
    return failed_;
  }
  Status close() override {
    if (!ended_) (void)write_chunk(true);
    ended_ = true;
    if (failed_.ok() && is_synced_) failed_ = file_->sync();
    LEAT_RETURN_IF_ERROR(failed_);
    return file_->close();
  }

 private:
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
  bool is_synced_ = false;  // sync() was called
  Status failed_;
};

}  // namespace

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
  return OpenSealedFile::open(std::move(file), *keys_, folders_);
}

Result<uint64_t> SealedFiles::plain_size(const std::string& path) {
  LEAT_ASSIGN_OR_RETURN(const auto file, files_.open(path));
  LEAT_ASSIGN_OR_RETURN(const bool sealed, is_sealed(*file));
  if (!sealed) return file->size();
  LEAT_ASSIGN_OR_RETURN(const SealedHeader header, read_sealed_header(*file));
  return plain_bytes(file->size() - header.bytes());
}

Result<std::unique_ptr<WritableFile>> SealedFiles::create(const std::string& path) {
  std::string role = seals() ? folders_.role_of(path) : "";
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
  if (seals() && !folders_.role_of(path).empty()) return Files::append_to(path, size);
  // Plain bytes behind the last chunk of an encrypted file would make it one that is damaged.
  const auto file = files_.open(path);
  LEAT_ASSIGN_OR_RETURN(const bool sealed, file.ok() ? is_sealed(**file) : Result<bool>(false));
  return sealed ? Files::append_to(path, size) : files_.append_to(path, size);
}

Status SealedFiles::link(const std::string& from, const std::string& to) {
  LEAT_ASSIGN_OR_RETURN(const auto file, files_.open(from));
  LEAT_ASSIGN_OR_RETURN(const bool sealed, is_sealed(*file));
  if (!sealed && seals() && !folders_.role_of(to).empty()) return Files::link(from, to);
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
