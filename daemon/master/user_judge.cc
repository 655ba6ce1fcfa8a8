#include "daemon/master/user_judge.h"

#include <utility>

#include "devices/base/text.h"

namespace leat {
namespace {

Status stopping() { return cancelled("the master is stopping"); }

}  // namespace

UserJudge::UserJudge(const LocalAccess& access, UserJudgeLimits limits)
    : access_(access), limits_(limits) {}

void UserJudge::judge(const LocalPeer& peer, RpcRole role,
                      std::function<void(Result<Grant>)> done) {
  if (auto known = access_.judge_known(peer, role)) return done(*std::move(known));
  if (++waiting_ > limits_.waiting) {
    --waiting_;
    return done(unavailable(cat("user ", peer.user, ": expected at most ", limits_.waiting,
                                " connections that wait for the accounts of the machine")));
  }
  const auto asked = std::chrono::steady_clock::now();
  const bool posted = thread_.post([this, peer, role, asked, done] {
    Result<Grant> grant = judge_late(peer, role, asked);
    --waiting_;
    done(std::move(grant));
  });
  if (posted) return;
  --waiting_;
  done(stopping());
}

Result<Grant> UserJudge::judge_late(const LocalPeer& peer, RpcRole role,
                                    std::chrono::steady_clock::time_point asked) const {
  if (stopping_) return stopping();
  if (std::chrono::steady_clock::now() - asked <= limits_.patience)
    return access_.judge(peer, role);
  return unavailable(cat("user ", peer.user, ": expected the accounts of the machine within ",
                         limits_.patience.count(), " ms, they are slow"));
}

void UserJudge::stop() {
  stopping_ = true;
  thread_.stop();
}

}  // namespace leat
