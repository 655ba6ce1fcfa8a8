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
#include "transport/rpc/peer_user.h"

namespace leat {

class ClusterState;
class RpcServer;

// The settings of the server, as those of the master's own port.
struct HeartOptions {
  std::string address;  // as the master's, with port 0
  RpcIdentity identity;
  std::function<bool(const Grant&)> is_revoked = {};  // as that of RpcServerOptions
  JudgeUser judge_user = {};                          // the same
  std::function<void(const std::string& address, const Status& why)> on_refused = {};
  bool insecure_allow_network_without_authentication = false;
  size_t connections = 512;  // at once; each worker has one
  Logger log;
};

// Threads: any.
class HeartServer {
 public:
  // Starts the thread and listens. Only connections of role worker are accepted. resource_exhausted
  // if there is no thread or descriptor left, unavailable if the address cannot be bound. REQUIRES:
  // `state` outlives it.
  static Result<std::unique_ptr<HeartServer>> open(ClusterState& state, HeartOptions options);
  ~HeartServer();

  // The port, such as ":4711"; the host is the master's.
  std::string address() const;
  RpcLoop& loop() { return *loop_; }
  // The members from now on, and the workers that were lost, each with its reason.
  void set_members(const std::vector<WorkerView>& workers);

  // The answer to a heartbeat of that worker: ok, or failed_precondition with the reason why it is
  // not a member. The worker then stops its runners and registers with a new incarnation.
  Status check(const WorkerRef& worker) const;
  ClusterState& state() { return state_; }

 private:
  explicit HeartServer(ClusterState& state);
  struct Member {
    uint64_t incarnation = 0;
    bool lives = false;  // not lost
    std::string reason;  // why it was lost
  };

  ClusterState& state_;
  mutable std::mutex mutex_;
  std::map<std::string, Member, std::less<>> members_;
  std::unique_ptr<RpcLoop> loop_;
  std::unique_ptr<RpcServer> server_;
};

}  // namespace leat
