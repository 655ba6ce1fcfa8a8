// Writes the files of authorities and of their certificates, which may hold keys.
#pragma once

#include <string>
#include <string_view>

#include "devices/base/status.h"

namespace leat {

// Writes a file of mode 0600, whole or not at all, which is on the disk when this returns. With
// `replace` it takes the place of a file that is there; else one that is there is
// invalid_argument, and stays as it is.
Status write_key_file(const std::string& path, std::string_view text, bool replace);

}  // namespace leat
