#include "daemon/remote/last_steps.h"

#include "daemon/remote/remote_run_state.h"
#include "daemon/remote/wire_runner_channel.h"

namespace leat {

void HeardTurns::hear(uint64_t turns) {
  if (heard_ > 0 && turns <= kept_[(heard_ - 1) % kKept].done) return;
  kept_[heard_++ % kKept] = {turns, std::chrono::steady_clock::now()};
}

std::vector<HeardSteps> HeardTurns::last() const {
  std::vector<HeardSteps> all;
  for (uint64_t i = heard_ > kKept ? heard_ - kKept : 0; i < heard_; ++i)
    all.push_back(kept_[i % kKept]);
  return all;
}

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
