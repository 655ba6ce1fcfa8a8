// The hosts of one assembly of a job: runners in other processes.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "daemon/hosts/host_group.h"
#include "daemon/remote/remote_host.h"
#include "transport/rpc/loop.h"

namespace leat {

// Facts that all runners of an assembly share.
struct RemoteHostsOptions {
  std::array<uint8_t, 16> cluster{};  // the cluster's id
  uint64_t assembly = 0;
  std::string transport = "auto";  // or "tcp", "shm": RunSetup.transport
};

// Makes the group of these runners. It must end before the loop. REQUIRES: the runners of one
// assembly, by task, all on `loop`; each belongs to only one group.
std::unique_ptr<HostGroup> make_remote_hosts(RpcLoop& loop,
                                             std::vector<std::shared_ptr<RemoteHost>> runners,
                                             RemoteHostsOptions options);

}  // namespace leat
