// The hosts of one assembly of a job: runners on other machines.
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

struct RemoteHostsOptions {
  std::array<uint8_t, 16> cluster{};  // the cluster's id
  uint64_t assembly = 0;
  std::string transport = "auto";  // or "tcp", "shm": RunSetup.transport
};

// The group ends before the loop does. REQUIRES: the runners of one assembly by task, all of
// `loop`; each belongs to one group.
std::unique_ptr<HostGroup> make_remote_hosts(RpcLoop& loop,
                                             std::vector<std::shared_ptr<RemoteHost>> runners,
                                             RemoteHostsOptions options);

}  // namespace leat
