// One file of a checkpoint: some of the variables, each whole, as safetensors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>

#include "devices/base/files.h"
#include "devices/base/status.h"
#include "devices/core/tensor.h"

namespace leat {

using Variables = std::map<std::string, Tensor>;

// What a manifest says of it.
struct CheckpointPart {
  uint64_t bytes = 0;
  std::string sha256;  // lower-case hexadecimal
  bool operator==(const CheckpointPart&) const = default;
};

inline constexpr size_t kMaxCheckpointParts = 4096;
// What the folder of a checkpoint is called while it is written: this, and more.
inline constexpr std::string_view kTemporaryCheckpoint = ".tmp-step-";

// "part-00000-of-00002.safetensors". REQUIRES: index < count <= kMaxCheckpointParts.
std::string part_name(size_t index, size_t count);

// Where a part is to go, for a process that may see another disk under the same path. The folder's
// name has a random part: who finds it sees the disk that is meant.
struct PartPlace {
  std::string folder;  // absolute; there already
  size_t index = 0, parts = 1;
  std::string path() const { return folder + "/" + part_name(index, parts); }
};

// Takes the bytes of a file piece by piece, in order, until it fails.
using TakeBytes = std::function<Status(std::span<const std::byte>)>;

// The bytes of the part with these variables as they are after `step`.
Status format_part(const Variables& variables, int64_t step, const TakeBytes& take);

// A new file with what `fill` gives, which is on disk when it returns. failed_precondition if its
// folder is not there.
Result<CheckpointPart> write_synced(Files& files, const std::string& path,
                                    const std::function<Status(const TakeBytes&)>& fill);

// The same, under another name until it is whole: one that was at `path` is replaced at once. The
// folder is made if need be.
Status write_whole(Files& files, const std::string& path,
                   const std::function<Status(const TakeBytes&)>& fill);

// The same for a part, in a process that was told where by another one: failed_precondition unless
// it sees the folder, invalid_argument for one that is not a checkpoint's.
Result<CheckpointPart> write_part_at(Files& files, const PartPlace& place,
                                     const Variables& variables, int64_t step);

}  // namespace leat
