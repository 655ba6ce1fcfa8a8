// The port to which workers send their heartbeats. It has a separate rpc thread and a copy of the
// table of members, so that the master answers a heartbeat at once even while it is busy.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "daemon/jobs/membership.h"
#include "devices/base/log.h"
#include "devices/base/status.h"
#include "transport/rpc/hello.h"
#include "transport/rpc/loop.h"

namespace leat {

class ClusterState;
class RpcServer;

struct HeartOptions {
  std::string address;  // as the master's, with port 0
  RpcIdentity identity;
  bool insecure_allow_network_without_authentication = false;
  size_t connections = 512;
  Logger log;
};

// Threads: any.
class HeartServer {
 public:
  // `state` outlives it.
  static Result<std::unique_ptr<HeartServer>> open(ClusterState& state, HeartOptions options);
  ~HeartServer();

  // The port, such as ":4711"; the host is the master's.
  std::string address() const;
  RpcLoop& loop() { return *loop_; }
  // The members from now on, and the workers that were lost, each with its reason.
  void set_members(const std::vector<WorkerView>& workers);

  // The answer to a heartbeat of that worker: ok, or why it is not a member.
  Status check(const WorkerRef& worker) const;
  ClusterState& state() { return state_; }

 private:
  explicit HeartServer(ClusterState& state);
  struct Member {
    uint64_t incarnation = 0;
    bool lives = false;
    std::string reason;
  };

  ClusterState& state_;
  mutable std::mutex mutex_;
  std::map<std::string, Member, std::less<>> members_;
  std::unique_ptr<RpcLoop> loop_;
  std::unique_ptr<RpcServer> server_;
};

}  // namespace leat
