#include "daemon/remote/remote_hosts.h"

#include "daemon/remote/remote_run_state.h"

namespace leat {

std::unique_ptr<HostGroup> make_remote_hosts(RpcLoop& loop,
                                             std::vector<std::shared_ptr<RemoteHost>> runners,
                                             RemoteHostsOptions options) {
  const auto shared = std::make_shared<AssemblyRuns>(loop, options.cluster, options.assembly,
                                                     std::move(options.transport));
  // All runners share one object, so that an error of one partition ends the run on all of them.
  for (const auto& runner : runners) runner->join(shared);
  return std::make_unique<HostGroup>(
      std::vector<std::shared_ptr<HostHandle>>(runners.begin(), runners.end()));
}

}  // namespace leat
