// A root folder of a process' own: an empty memory file system with the granted files mounted in
// their places. All else of the machine is not there.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "devices/base/status.h"

namespace leat {

// How a path is shown in the new root. Only those of system and programs may be mapped as code,
// only `device` holds devices, and only `device` and `room` can be written. In data and programs
// the files of the worker's user count as the new user's, where the file system can do that.
enum class Shown : uint8_t { system, programs, data, device, room };

struct ShownPath {
  std::string path;
  Shown as = Shown::data;
};

// Moves this process into such a root, with a /proc in which it sees the processes of its own
// namespace alone. A path that is a symbolic link becomes one; one that is absent is left out.
// `user` is the user that the process becomes afterwards; 0: the present one. `staging`: an empty
// folder. On an error this process still has its old root.
// REQUIRES: this process has CAP_SYS_ADMIN, and mount and pid namespaces of its own.
Status enter_own_root(const std::vector<ShownPath>& paths, const std::string& staging,
                      uint32_t user);

// Keeps the old root, but shows a new /proc, and nothing at the `hidden` paths. Same conditions.
Status hide_in_root(const std::vector<std::string>& hidden);

}  // namespace leat
