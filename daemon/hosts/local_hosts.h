// Hosts in this process, connected by local:// links. `leat train` and tests run on them, with the
// same HostGroup and DeviceHost that the daemons use.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "daemon/hosts/host_group.h"
#include "daemon/hosts/local_host.h"

namespace leat {

// Makes the accelerators of one host.
using MakeAccelerators = std::function<std::vector<std::unique_ptr<Device>>()>;

// Makes `hosts` hosts with `threads` compute threads each, and with what `accelerators` makes for
// each of them. They read data sets through `files`, which must outlive the group. `recorded`:
// records steps of the training; may be null.
std::unique_ptr<HostGroup> make_local_hosts(int hosts, int threads, Files& files = real_files(),
                                            const MakeAccelerators& accelerators = {},
                                            std::shared_ptr<RecordedSteps> recorded = nullptr);

}  // namespace leat
