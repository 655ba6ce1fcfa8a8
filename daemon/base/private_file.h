// Files that only this user may read: keys and secrets.
#pragma once

#include <string>
#include <string_view>

#include "devices/base/status.h"

namespace leat {

// Makes a file with mode 0600 from its first moment, whole and on the disk before it has its name.
// If there is one of that name, also one that another process makes at the same time, that one
// stays as it is. resource_exhausted if the disk is full, else unavailable.
Status make_private_file(const std::string& path, std::string_view bytes);

}  // namespace leat
