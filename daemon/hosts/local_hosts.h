// Hosts in this process, connected by local:// links. `leat train` and tests run on them, with the
// same HostGroup and DeviceHost that the daemons use.
#pragma once

#include <memory>

#include "daemon/hosts/host_group.h"
#include "daemon/hosts/local_host.h"

namespace leat {

// Makes `hosts` hosts with `threads` compute threads each. They read data sets through `files`,
// which must outlive the group.
std::unique_ptr<HostGroup> make_local_hosts(int hosts, int threads, Files& files = real_files());

}  // namespace leat
