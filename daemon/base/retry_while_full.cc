#include "daemon/base/retry_while_full.h"

#include <thread>

namespace leat {
namespace {

// The pause between two attempts. A disk that is full stays so for a while, and `stop` is asked
// once in each pause.
constexpr std::chrono::milliseconds kPause{200};

}  // namespace

Status retry_while_full(const std::function<Status()>& attempt, const std::function<bool()>& stop,
                        const std::function<void(const Status&)>& told,
                        std::chrono::milliseconds patience) {
  const auto until = std::chrono::steady_clock::now() + patience;
  Status status = attempt();
  // Told once and before the first pause, so that people can make room.
  if (status.code() == Code::resource_exhausted) told(status);
  while (status.code() == Code::resource_exhausted && !stop() &&
         std::chrono::steady_clock::now() < until) {
    std::this_thread::sleep_for(kPause);
    status = attempt();
  }
  return status;
}

}  // namespace leat
