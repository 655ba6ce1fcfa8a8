// What one epoch of a job runs on: a master whose workers are runners on other machines.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "daemon/cluster.h"
#include "daemon/remote/remote_runner.h"
#include "transport/rpc/loop.h"

namespace leat {

struct RemoteClusterOptions {
  std::array<uint8_t, 16> cluster{};  // the cluster's id
  uint64_t epoch = 0;
  std::string transport = "auto";  // or "tcp", "shm": RunSetup.transport
};

// Threads: as Master says. The runs on it end before it does, and it before the loop.
class RemoteCluster final : public Cluster {
 public:
  // REQUIRES: the runners of one epoch by task, all of `loop`; each belongs to one cluster.
  RemoteCluster(RpcLoop& loop, std::vector<std::shared_ptr<RemoteRunner>> runners,
                RemoteClusterOptions options);

  Master& master() override { return master_; }

 private:
  std::vector<std::shared_ptr<RemoteRunner>> runners_;
  Master master_;
};

}  // namespace leat
