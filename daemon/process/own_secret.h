// The secret that a master makes for itself.
#pragma once

#include <string>

#include "devices/base/status.h"

namespace leat {

// Returns the secret in the file at `path`, which is made with 32 random bytes if it is not there:
// 64 hexadecimal digits, for its user alone. The keys of runners and of tokens are made from it, so
// it stays the same for as long as the state folder. Errors as of read_secret_file(), and those of
// writing.
Result<std::string> open_or_make_secret(const std::string& path);

}  // namespace leat
