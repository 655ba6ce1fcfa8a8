// Hosts in this process, joined by local://. `leat train` runs on them, and so do tests: the same
// HostGroup and DeviceHost that daemons run.
#pragma once

#include <memory>

#include "daemon/hosts/host_group.h"
#include "daemon/hosts/local_host.h"

namespace leat {

// `hosts` hosts of `threads` compute threads each. Data sets are looked at through `files`, which
// outlives the group.
std::unique_ptr<HostGroup> make_local_hosts(int hosts, int threads, Files& files = real_files());

}  // namespace leat
