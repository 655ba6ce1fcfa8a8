// Renames files and folders that cannot be used, so that a person can look at them. Nothing is
// deleted.
#pragma once

#include <string>
#include <vector>

#include "devices/base/files.h"
#include "devices/base/status.h"

namespace leat {

// Renames "a/b" to "a/damaged-b", or to "a/damaged-b-2" and so on if that name is taken. Returns
// the new path when the rename is on disk.
Result<std::string> set_aside(Files& files, const std::string& path);

// Sets aside anything at `path` that is not a folder. Returns its new path, or "" if nothing was in
// the way.
Result<std::string> make_way_for_folder(Files& files, const std::string& path);
// Sets aside anything at `path` that is not a file.
Result<std::string> make_way_for_file(Files& files, const std::string& path);

// Sets aside the checkpoints in `folder` of steps after `step`. These are damaged ones, which would
// count as the newest. Returns their new names.
Result<std::vector<std::string>> set_aside_checkpoints_after(Files& files,
                                                             const std::string& folder,
                                                             int64_t step);

}  // namespace leat
