// Where workers say that they live: a port, an rpc thread and a table of its own, so that whatever
// the master does, a heartbeat is answered at once.
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

  // ":4711", at the master's host.
  std::string address() const;
  RpcLoop& loop() { return *loop_; }
  // Who is a member from now on, and who was lost for what reason.
  void set_members(const std::vector<WorkerView>& workers);

  // What a heartbeat of that worker is answered with.
  Status check(const WorkerRef& worker) const;
  ClusterState& state() { return state_; }

 private:
  explicit HeartServer(ClusterState& state) : state_(state) {}
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
