#include "daemon/client/attachments.h"

#include <algorithm>

#include "daemon/base/sealed_magic.h"
#include "devices/base/files.h"
#include "devices/base/sha256.h"
#include "devices/base/text.h"

namespace leat {
namespace {

constexpr uint64_t kMaxUpload = uint64_t{16} << 30;
constexpr uint64_t kMaxInline = 512u << 10;  // of all files in a submit
constexpr uint64_t kMaxSubmit = 960u << 10;  // of the message: a master takes 1 MiB
constexpr uint64_t kFileBytes = 128;         // of a file there, besides name and content

// Returns the number of bytes that the files' content may have in the message. invalid_argument if
// there is no room for the rest.
Result<uint64_t> room_for_content(const JobRequest& request) {
  // Everything but the content: each text with a little room for its pointer in the message.
  uint64_t used = request.text.size();
  for (const std::string& each : request.overrides) used += each.size() + 16;
  for (const JobAttachment& each : request.files) used += each.name.size() + kFileBytes;
  if (used <= kMaxSubmit) return std::min(kMaxInline, kMaxSubmit - used);
  return invalid_argument(
      cat("submit: expected a job file, overrides and names of files of at most ",
          human_bytes(kMaxSubmit), ", received ", human_bytes(used), " with ", request.files.size(),
          " files"));
}

// Reads one file once. It is hashed in any case, and kept in memory if it has at most `room` bytes.
Result<Attached> look_at(Files& files, const JobAttachment& from, uint64_t room,
                         const std::function<bool()>& stopped) {
  LEAT_ASSIGN_OR_RETURN(const auto file, files.open(from.path));
  if (file->size() > kMaxUpload) {
    return resource_exhausted(cat("'", from.path, "': expected at most ", human_bytes(kMaxUpload),
                                  ", it has ", human_bytes(file->size())));
  }
  Attached attached{{from.name, {}, file->size(), {}}, from.path, &files};
  std::optional<std::string>& bytes = attached.file.bytes;
  if (file->size() <= room) bytes.emplace();
  // A master would refuse it after the upload.
  Bytes start(std::min<uint64_t>(file->size(), kSealedMagic.size()));
  LEAT_RETURN_IF_ERROR(file->read(0, start));
  if (begins_sealed(start)) return refuse_sealed(cat("'", from.path, "'"));
  Sha256 hash;
  LEAT_RETURN_IF_ERROR(read_in_pieces(*file, [&](std::span<const std::byte> piece) {
    hash.update(piece);
    if (bytes) bytes->append(reinterpret_cast<const char*>(piece.data()), piece.size());
    // A large file takes a while to hash, so Ctrl-C is looked at in between.
    return stopped() ? cancelled("given up") : Status();
  }));
  attached.file.sha256 = hash.finish();
  return attached;
}

}  // namespace

Result<std::vector<Attached>> look_at(const JobRequest& request,
                                      const std::function<bool()>& stopped) {
  LEAT_ASSIGN_OR_RETURN(uint64_t room, room_for_content(request));
  Files& reads = request.reads_with != nullptr ? *request.reads_with : real_files();
  std::vector<Attached> files;
  for (const JobAttachment& each : request.files) {
    LEAT_ASSIGN_OR_RETURN(Attached attached, look_at(reads, each, room, stopped));
    // The files are packed in their order: a small one behind a large one may still have room.
    if (attached.file.bytes) room -= attached.file.size;
    files.push_back(std::move(attached));
  }
  return files;
}

}  // namespace leat
