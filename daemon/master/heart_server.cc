#include "daemon/master/heart_server.h"

#include "daemon/master/cluster_state.h"
#include "daemon/wire/cluster.capnp.h"
#include "daemon/wire/views.h"
#include "devices/base/text.h"
#include "transport/rpc/call.h"
#include "transport/rpc/server.h"
#include "transport/rpc/service.h"

namespace leat {
namespace {

// Serves one connection of a worker, on the thread of the heart server's loop.
class HeartService final : public Service<wire::Heart> {
 public:
  HeartService(HeartServer& hearts, const Grant& grant) : hearts_(hearts), grant_(grant) {}

 protected:
  kj::Promise<void> beat(BeatContext context) override {
    const auto params = context.getParams();
    Heartbeat heartbeat;
    heartbeat.worker = {to_string(params.getName()), params.getIncarnation()};
    heartbeat.sequence = params.getSequence();
    heartbeat.progress = params.getProgress();
    heartbeat.stepping = params.getStepping();
    heartbeat.waits = params.getWaits();
    heartbeat.quiet = params.getQuiet();
    heartbeat.work = params.getWork();
    heartbeat.traffic = read_traffic(params.getTraffic());
    heartbeat.usage = read_usage(params.getUsage());
    Status status = hearts_.check(heartbeat.worker);
    if (!may_be_worker(grant_, heartbeat.worker.name)) {
      status = failed_precondition(cat("Heart.beat: expected worker '", grant_.name,
                                       "', whose token it has, received another one"));
    }
    if (status.ok()) hearts_.state().heard(std::move(heartbeat));
    answer(status, context.getResults().initOutcome());
    return kj::READY_NOW;
  }

 private:
  HeartServer& hearts_;
  const Grant grant_;
};

}  // namespace

// On failure `hearts` destroys the parts that it has, the server before its loop.
Result<std::unique_ptr<HeartServer>> HeartServer::open(ClusterState& state, HeartOptions options) {
  std::unique_ptr<HeartServer> hearts(new HeartServer(state));
  LEAT_ASSIGN_OR_RETURN(hearts->loop_, RpcLoop::start(options.log));
  RpcServerOptions server;
  server.address = options.address;
  server.identity = options.identity;
  server.insecure_allow_network_without_authentication =
      options.insecure_allow_network_without_authentication;
  server.connections = options.connections;
  server.is_revoked = options.is_revoked;
  server.judge_user = options.judge_user;
  server.on_refused = options.on_refused;
  server.log = options.log;
  LEAT_ASSIGN_OR_RETURN(
      hearts->server_,
      RpcServer::listen(
          *hearts->loop_, std::move(server),
          [raw = hearts.get()](const RpcPeer& peer) -> kj::Maybe<capnp::Capability::Client> {
            // Clients and runners have nothing to do here; the server refuses a peer without a
            // capability.
            if (peer.role != RpcRole::worker) return nullptr;
            return capnp::Capability::Client(kj::heap<HeartService>(*raw, peer.grant));
          }));
  return hearts;
}

HeartServer::HeartServer(ClusterState& state) : state_(state) {}
HeartServer::~HeartServer() = default;

std::string HeartServer::address() const {
  // Workers know the host of the master already, under a name that this process may not know.
  const std::string& address = server_->address();
  return address.substr(address.rfind(':'));
}

void HeartServer::set_members(const std::vector<WorkerView>& workers) {
  // The new map is made before the lock is taken, so that no heartbeat waits for it.
  std::map<std::string, Member, std::less<>> members;
  for (const WorkerView& worker : workers) {
    members[worker.info.worker.name] = {worker.info.worker.incarnation,
                                        worker.state != WorkerState::lost, worker.reason};
  }
  const std::lock_guard lock(mutex_);
  members_.swap(members);
}

Status HeartServer::check(const WorkerRef& worker) const {
  const std::lock_guard lock(mutex_);
  const auto found = members_.find(worker.name);
  // Both answers make the worker stop its runners and register with a new incarnation; only the
  // reason differs.
  if (found == members_.end() || found->second.incarnation != worker.incarnation) {
    return failed_precondition(
        cat("worker '", worker.name,
            "' is not a member of this cluster: expected it to register, with a new incarnation"));
  }
  if (found->second.lives) return {};
  return failed_precondition(cat("worker '", worker.name, "' was lost: ", found->second.reason,
                                 "; expected it to register anew, with a new incarnation"));
}

}  // namespace leat
