#include "daemon/remote/remote_run_state.h"

#include <algorithm>

#include "daemon/remote/wire_runner_channel.h"
#include "devices/base/text.h"
#include "scheduler/capnp/plan_file.h"
#include "transport/rpc/loop_context.h"

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

// Threads that wait for any of the three get the cause. Only its first failure counts.
void RemoteRunState::fail(const Status& cause) {
  prepared.fail(cause);
  connected.fail(cause);
  finished.fail(cause);
}

void RemoteRunState::send_abort(const Status& cause) {
  // The runner takes only the first cause, so a second call would change nothing.
  if (abort_sent_.exchange(true)) return;
  const auto abort = [part = part, cause](wire::Runner::Client& runner) {
    auto request = runner.abortRequest();
    name_part(part, request);
    write_status(cause, request.initCause());
    return request.send().then([](auto&& response) { return status_of(response.getOutcome()); });
  };
  channel->start("aborting", kCallDeadline, abort, [](const Status&) {});
}

void RunGroup::add(const std::shared_ptr<RemoteRunState>& member) {
  members_.push_back(member);
  // A partition that is made after the failure fails with the same cause.
  if (over()) end(*member);
}

void RunGroup::failed(const Status& status, Failure what, const RemoteRunState* from) {
  if (over()) return;
  // The rest of this function is for errors that may be the consequence of another one.
  if (what == Failure::cause) return end(status);
  const bool first = waiting_.ok();
  // Combine the loss of a runner with the error that a peer saw.
  const Failure least = std::min(what, waiting_as_), most = std::max(what, waiting_as_);
  if (!first && least < Failure::loss && most == Failure::loss && from != waiting_from_) {
    const Status& loss = what == Failure::loss ? status : waiting_;
    const Status& seen = what == Failure::loss ? waiting_ : status;
    return end(Status(loss.code(), cat(loss.message(), "; ", seen.message())));
  }
  // An error that tells no more than the last one changes nothing, and its time runs already.
  if (!first && what <= waiting_as_) return;
  waiting_ = status;
  waiting_as_ = what;
  waiting_from_ = from;
  // No peer is left that could tell more.
  if (what == Failure::loss && !others_at_work(from)) return end(status);
  if (first || what == Failure::loss) end_in(what == Failure::loss ? kGraceOfLoss : kGrace);
}

// True if another partition is connected, which may see what the loss of a runner causes.
bool RunGroup::others_at_work(const RemoteRunState* than) const {
  return std::any_of(members_.begin(), members_.end(), [than](const auto& each) {
    const auto member = each.lock();
    return member && member.get() != than && member->connected.value() > 0;
  });
}

// Ends the run after `grace` with the most telling error so far, if it has not ended by then.
void RunGroup::end_in(std::chrono::milliseconds grace) {
  LoopContext& context = loop_.context();
  context.tasks.add(context.timer.afterDelay(to_kj(grace)).then([self = shared_from_this()] {
    if (!self->over()) self->end(self->waiting_);
  }));
}

void RunGroup::end(const Status& cause) {
  // The cause is set first: the calls below may come back to failed(), which then does nothing.
  cause_ = cause;
  for (const auto& each : members_) {
    if (const auto member = each.lock()) end(*member);
  }
}

// Every runner gets the cause, even the one that failed: it may know only a consequence.
void RunGroup::end(RemoteRunState& member) const {
  member.send_abort(cause_);
  member.fail(cause_);
  member.channel->cancel_setup(member.part);
}

std::shared_ptr<RunGroup> AssemblyRuns::group(uint64_t run) {
  const std::lock_guard lock(mutex_);
  // Groups live as long as their partitions, and the map forgets those of runs that are over.
  std::erase_if(groups_, [](const auto& entry) { return entry.second.expired(); });
  std::shared_ptr<RunGroup> group = groups_[run].lock();
  if (!group) groups_[run] = group = std::make_shared<RunGroup>(loop);
  return group;
}

Result<Sha256Digest> AssemblyRuns::digest(const std::shared_ptr<const Plan>& plan) {
  const std::lock_guard lock(mutex_);
  // All partitions of a run ask for the hash of the same plan, one after the other.
  if (hashed_.lock() == plan) return digest_;
  LEAT_ASSIGN_OR_RETURN(const EncodedPlan encoded, encode_plan(*plan));
  digest_ = sha256(encoded.message);
  hashed_ = plan;
  return digest_;
}

}  // namespace leat
