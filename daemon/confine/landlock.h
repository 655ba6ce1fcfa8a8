// Landlock: a process gives up all files but those of a list. The C library has no functions for
// it, so these are the system calls.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "devices/base/status.h"

namespace leat {

// The rights of a process to a path and all that is below it.
enum class FileRight : uint8_t {
  read,    // open files for reading, list folders
  device,  // read and write a device, and its ioctl
  room,    // list the folder, make and remove sockets in it
};

struct FileRule {
  std::string path;
  FileRight right = FileRight::read;
};

// The version of the kernel's interface; unavailable if it has none, with the reason.
Result<int> landlock_version();

// From here on this thread and its children open only what the rules grant. From later versions on
// they also bind no TCP port (4), connect to no abstract socket of others and send no signal out
// of their domain (6). Rules whose path cannot be opened are left out and returned; so are rules of
// an absent path.
// REQUIRES: no_new_privs is set.
Result<std::vector<std::string>> restrict_files(const std::vector<FileRule>& rules);

}  // namespace leat
