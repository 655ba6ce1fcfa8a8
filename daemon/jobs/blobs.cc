#include "daemon/jobs/blobs.h"

#include "devices/base/text.h"

namespace leat {

Status Blobs::put(const Sha256Digest& digest, std::span<const std::byte> bytes) {
  const Sha256Digest received = sha256(bytes);
  if (received != digest) {
    return invalid_argument(
        cat("upload: expected bytes of SHA-256 ", to_hex(digest), ", received ", to_hex(received)));
  }
  LEAT_ASSIGN_OR_RETURN(const bool there, has(digest, bytes.size()));
  if (there) return {};
  LEAT_RETURN_IF_ERROR(files_.make_directories(folder_));
  return write_file_atomically(files_, path(digest), bytes);
}

Result<bool> Blobs::has(const Sha256Digest& digest, uint64_t size) const {
  LEAT_ASSIGN_OR_RETURN(const bool there, files_.exists(path(digest)));
  if (!there) return false;
  LEAT_ASSIGN_OR_RETURN(const auto file, files_.open(path(digest)));
  return file->size() == size;
}

std::string Blobs::path(const Sha256Digest& digest) const {
  return cat(folder_, "/", to_hex(digest));
}

Result<std::vector<std::string>> Blobs::names() const {
  LEAT_ASSIGN_OR_RETURN(const bool there, files_.exists(folder_));
  if (!there) return std::vector<std::string>();
  return files_.list(folder_);
}

Status Blobs::remove(const std::string& name) { return files_.remove(cat(folder_, "/", name)); }

}  // namespace leat
