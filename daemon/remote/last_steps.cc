#include "daemon/remote/last_steps.h"

#include "daemon/remote/wire_runner_channel.h"

namespace leat {

std::vector<LastSteps> last_steps(std::span<const std::shared_ptr<RemoteHost>> hosts) {
  std::vector<LastSteps> all;
  for (const auto& host : hosts) {
    std::vector<LastSteps> of_host;
    (void)host->channel()->loop().run([&] { of_host = host->channel()->last_steps(); });
    all.insert(all.end(), of_host.begin(), of_host.end());
  }
  return all;
}

}  // namespace leat
