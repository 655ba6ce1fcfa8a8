// The private folder of a daemon: no other user can read or write in it, whatever the umask is.
#pragma once

#include <sys/types.h>

#include <string>

#include "devices/base/status.h"

namespace leat {

// Creates the folder with mode 0700 if it does not exist. If an existing folder was open to other
// users, changes its mode to 0700. Returns a text for the log, which says that the folder was open,
// or why it still is; "" if there is nothing to log.
Result<std::string> take_state_folder(const std::string& path);

// Returns the permission bits of `mode` in the notation of chmod: "0750".
std::string permission_text(mode_t mode);

}  // namespace leat
