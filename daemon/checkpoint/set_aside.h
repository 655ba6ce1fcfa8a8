// Moves out of the way what cannot be used and may be looked at by a person: nothing is deleted.
#pragma once

#include <string>
#include <vector>

#include "devices/base/files.h"
#include "devices/base/status.h"

namespace leat {

// Renames "a/b" to "a/damaged-b", or to "a/damaged-b-2" and so on if there is one already. Returns
// the new path, once it survives a loss of power.
Result<std::string> set_aside(Files& files, const std::string& path);

// For a folder that is to be at `path`: what is there and is none is set aside. Returns where, or
// "" if nothing was in the way.
Result<std::string> make_way_for_folder(Files& files, const std::string& path);
// The same for a file.
Result<std::string> make_way_for_file(Files& files, const std::string& path);

// Sets aside the checkpoints in `folder` of steps after `step`: damaged ones, which would count as
// the newest. Returns the names that they have now.
Result<std::vector<std::string>> set_aside_checkpoints_after(Files& files,
                                                             const std::string& folder,
                                                             int64_t step);

}  // namespace leat
