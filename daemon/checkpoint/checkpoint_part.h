// One file of a checkpoint, a part: it contains some of the variables as safetensors, each as a
// whole.
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

// The variables of a job by name. std::map orders the names, so equal variables give equal files.
using Variables = std::map<std::string, Tensor>;

// The size and hash of a part, as a manifest contains them.
struct CheckpointPart {
  uint64_t bytes = 0;
  std::string sha256;  // lower-case hexadecimal
  bool operator==(const CheckpointPart&) const = default;
};

inline constexpr size_t kMaxCheckpointParts = 4096;
// The first characters of a checkpoint folder's name while the checkpoint is written.
inline constexpr std::string_view kTemporaryCheckpoint = ".tmp-step-";

// Returns the name of a part: "part-00000-of-00002.safetensors". REQUIRES: index < count <=
// kMaxCheckpointParts.
std::string part_name(size_t index, size_t count);

// The place for a part, for another process that may see another disk under the same path. The
// folder's name has a random part, so a process that finds the folder sees the right disk.
struct PartPlace {
  std::string folder;  // absolute; exists already
  size_t index = 0, parts = 1;
  std::string path() const { return folder + "/" + part_name(index, parts); }
};

// Passes the bytes of the part with these variables after `step` to `take`. The file is in
// safetensors format, and its metadata contain the step.
Status format_part(const Variables& variables, int64_t step, const TakeBytes& take);

// Creates a file with the bytes that `fill` passes on, and returns when it is on disk.
// failed_precondition if its folder does not exist. If it fails, the file may be there in part.
Result<CheckpointPart> write_synced(Files& files, const std::string& path,
                                    const std::function<Status(const TakeBytes&)>& fill);

// Takes bytes and does nothing with them.
inline Status pass_over(std::span<const std::byte>) { return {}; }

// Passes the bytes of a part on, and compares them with the manifest: its size before the first
// byte, and its hash behind the last one. invalid_argument names the file and what differs; else
// the errors of the file and of `take`.
Status read_checked(const ReadableFile& file, const CheckpointPart& expected,
                    const TakeBytes& take);

// Writes a part to a place that another process chose. failed_precondition if this process does not
// see the folder; invalid_argument if the folder is not a checkpoint's.
Result<CheckpointPart> write_part_at(Files& files, const PartPlace& place,
                                     const Variables& variables, int64_t step);

}  // namespace leat
