// Private to ops/data.
#pragma once

#include <filesystem>

namespace leat {

// True if the text of a path leads out of the folder that it begins in. No file is looked at.
bool leaves_root(const std::filesystem::path& path);

}  // namespace leat
