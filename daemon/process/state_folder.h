// The folder of a daemon's own: nobody else reads or writes below it, whatever the umask.
#pragma once

#include <sys/types.h>

#include <string>

#include "devices/base/status.h"

namespace leat {

// Makes the folder if it is not there, with mode 0700, and takes one that was open to others away
// from them. Returns what is worth a line in the log, or "": that it was open, or why it still is.
Result<std::string> take_state_folder(const std::string& path);

// The permission bits of `mode` as chmod takes them: "0750".
std::string permission_text(mode_t mode);

}  // namespace leat
