// Judges users of the master's machine on a thread of its own, so that slow accounts of the machine
// (NSS, which may ask a directory service) stop no loop.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>

#include "daemon/base/task_thread.h"
#include "daemon/master/local_access.h"
#include "devices/base/status.h"
#include "transport/rpc/peer_user.h"

namespace leat {

// Limits of the questions to the accounts.
struct UserJudgeLimits {
  // A question that has waited longer is not asked: its connection has been turned away.
  std::chrono::milliseconds patience{3'000};
  // One more that waits is turned away.
  size_t waiting = 1'024;
};

// Threads: any.
class UserJudge {
 public:
  // REQUIRES: `access` outlives it.
  explicit UserJudge(const LocalAccess& access, UserJudgeLimits limits = {});
  // Stops it, if that was not done.
  ~UserJudge() { stop(); }

  // Calls `done` once with LocalAccess::judge(): at once if the accounts need not be asked, else on
  // the thread. unavailable if they take too long, cancelled after stop().
  void judge(const LocalPeer& peer, RpcRole role, std::function<void(Result<Grant>)> done);
  // Answers questions that wait with `cancelled`, and waits for one that is being asked.
  void stop();

 private:
  Result<Grant> judge_late(const LocalPeer& peer, RpcRole role,
                           std::chrono::steady_clock::time_point asked) const;

  const LocalAccess& access_;
  const UserJudgeLimits limits_;
  std::atomic<bool> stopping_{false};
  std::atomic<size_t> waiting_{0};
  TaskThread thread_{"accounts"};  // last, because its tasks use the members above
};

}  // namespace leat
