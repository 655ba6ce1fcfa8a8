// Files that only this user may read: keys and secrets.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "devices/base/status.h"

namespace leat {

// The fate of a file that has the name already, also if another process makes it meanwhile.
enum class IfThere : uint8_t {
  keep,     // it stays, and that is no error
  refuse,   // it stays: invalid_argument
  replace,  // the new one takes its place at once
};

// Writes a file with mode 0600 from its first moment, whole and on the disk before it has its name.
// A process that is killed may leave a file PATH.tmp.XXXXXX, which nothing uses.
// resource_exhausted if the disk is full, else unavailable.
Status write_private_file(const std::string& path, std::string_view bytes, IfThere there);

}  // namespace leat
