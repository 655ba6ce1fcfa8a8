#include "daemon/checkpoint/checkpoint_part.h"

#include <cstdio>

#include "devices/base/failpoint.h"
#include "devices/base/sha256.h"
#include "devices/base/text.h"
#include "ops/formats/safetensors.h"

namespace leat {
namespace {

// Refuses places outside a checkpoint's temporary folder, because the place comes from another
// process.
Status check(const PartPlace& place) {
  const std::string_view folder = place.folder;
  const size_t slash = folder.rfind('/');
  // The last part of the path must be a temporary folder's name, and ".." must not lead elsewhere.
  const bool named = slash != std::string_view::npos &&
                     folder.substr(slash + 1).starts_with(kTemporaryCheckpoint) &&
                     folder.find("/../") == std::string_view::npos;
  if (!named || folder[0] != '/') {
    return invalid_argument(cat("a part of a checkpoint: expected a folder /.../",
                                kTemporaryCheckpoint, "..., received '", folder, "'"));
  }
  if (place.index < place.parts && place.parts <= kMaxCheckpointParts) return {};
  return invalid_argument(cat("a part of a checkpoint: expected one of at most ",
                              kMaxCheckpointParts, ", received ", place.index, " of ",
                              place.parts));
}

}  // namespace

std::string part_name(size_t index, size_t count) {
  char name[64];
  // The zeros let tools list the parts in order.
  std::snprintf(name, sizeof name, "part-%05zu-of-%05zu.safetensors", index, count);
  return name;
}

Status format_part(const Variables& variables, int64_t step, const TakeBytes& take) {
  SafeTensors content;
  content.tensors = variables;
  content.metadata = {{"format", "pt"}, {"leat.step", std::to_string(step)}};
  return format_safetensors(content, take);
}

Result<CheckpointPart> write_synced(Files& files, const std::string& path,
                                    const std::function<Status(const TakeBytes&)>& fill) {
  CheckpointPart written;
  Sha256 hash;
  LEAT_ASSIGN_OR_RETURN(auto file, files.create(path));
  // The hash is computed on the way, so no byte is read back from the disk.
  LEAT_RETURN_IF_ERROR(fill([&](std::span<const std::byte> piece) {
    hash.update(piece);
    written.bytes += piece.size();
    return file->append(piece);
  }));
  LEAT_RETURN_IF_ERROR(file->sync());
  LEAT_RETURN_IF_ERROR(file->close());
  written.sha256 = to_hex(hash.finish());
  return written;
}

Status read_checked(const ReadableFile& file, const CheckpointPart& expected,
                    const TakeBytes& take) {
  if (file.size() != expected.bytes) {
    return invalid_argument(cat("'", file.path(), "': expected ", expected.bytes,
                                " bytes as in the manifest, received ", file.size()));
  }
  Sha256 hash;
  LEAT_RETURN_IF_ERROR(read_in_pieces(file, [&](std::span<const std::byte> piece) {
    hash.update(piece);
    return take(piece);
  }));
  const std::string received = to_hex(hash.finish());
  if (received == expected.sha256) return {};
  return invalid_argument(cat("'", file.path(), "': expected SHA-256 ", expected.sha256,
                              " as in the manifest, received ", received));
}

Result<CheckpointPart> write_part_at(Files& files, const PartPlace& place,
                                     const Variables& variables, int64_t step) {
  LEAT_RETURN_IF_ERROR(check(place));
  LEAT_RETURN_IF_ERROR(LEAT_FAILPOINT("checkpoint/part_at"));
  return write_synced(files, place.path(),
                      [&](const TakeBytes& take) { return format_part(variables, step, take); });
}

}  // namespace leat
