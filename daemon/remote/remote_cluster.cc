#include "daemon/remote/remote_cluster.h"

#include "daemon/remote/run_state.h"

namespace leat {
namespace {

std::vector<WorkerLink*> borrow(const std::vector<std::shared_ptr<RemoteRunner>>& runners) {
  std::vector<WorkerLink*> links;
  for (const auto& runner : runners) links.push_back(runner.get());
  return links;
}

}  // namespace

RemoteCluster::RemoteCluster(RpcLoop& loop, std::vector<std::shared_ptr<RemoteRunner>> runners,
                             RemoteClusterOptions options)
    : runners_(std::move(runners)), master_(borrow(runners_)) {
  const auto epoch = std::make_shared<EpochRuns>(loop, options.cluster, options.epoch,
                                                 std::move(options.transport));
  for (const auto& runner : runners_) runner->join(epoch);
}

}  // namespace leat
