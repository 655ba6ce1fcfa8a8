#include "daemon/worker/heart.h"

#include <pthread.h>

#include <algorithm>

#include "daemon/wire/views.h"
#include "transport/rpc/call.h"
#include "transport/rpc/client.h"

namespace leat {
namespace {

constexpr std::chrono::seconds kBeatDeadline{1};

// Sends one heartbeat, and waits for its answer. The pulse is of all runners together.
Status beat_once(RpcClient& client, const Heart::Membership& membership, const RunnersPulse& pulse,
                 uint64_t sequence) {
  return client.call<wire::Heart>("Heart.beat", kBeatDeadline, [&](wire::Heart::Client heart) {
    auto request = heart.beatRequest();
    request.setName(membership.worker);
    request.setIncarnation(membership.incarnation);
    request.setSequence(sequence);
    request.setProgress(pulse.progress);
    request.setStepping(pulse.stepping);
    request.setWaits(pulse.waits);
    request.setQuiet(pulse.quiet);
    request.setWork(pulse.work);
    write_traffic(pulse.traffic, request.initTraffic());
    write_usage(pulse.usage, request.initUsage());
    return request.send().then([](auto&& response) { return status_of(response.getOutcome()); });
  });
}

}  // namespace

Result<std::unique_ptr<Heart>> Heart::create(RpcIdentity identity, const Logger& log) {
  // The loop lives through all memberships; each start() begins a thread that uses it.
  LEAT_ASSIGN_OR_RETURN(auto loop, RpcLoop::start(log.named("heart")));
  return std::unique_ptr<Heart>(new Heart(std::move(identity), std::move(loop)));
}

void Heart::start(Membership membership, const Runners& runners,
                  std::function<void(const Status&)> refused) {
  {
    const std::lock_guard lock(mutex_);
    ending_ = false;
  }
  thread_ = std::thread([this, membership = std::move(membership), &runners,
                         refused = std::move(refused)] { beat(membership, runners, refused); });
}

void Heart::end() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
}

void Heart::stop() {
  end();
  if (thread_.joinable()) thread_.join();
}

// The loop of the thread "heart". It connects again after a lost connection.
void Heart::beat(const Membership& membership, const Runners& runners,
                 const std::function<void(const Status&)>& refused) {
  pthread_setname_np(pthread_self(), "heart");
  std::unique_ptr<RpcClient> client;
  auto due = std::chrono::steady_clock::now();
  for (uint64_t sequence = 1;; ++sequence) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait_until(lock, due, [this] { return ending_; });
      if (ending_) return;
    }
    // Beats that are late are not made up for: a burst of them would tell the master nothing.
    due = std::max(due + membership.beat_every, std::chrono::steady_clock::now());
    if (!client) {
      RpcClientOptions options;
      options.address = membership.address;
      options.identity = identity_;
      options.deadline = kBeatDeadline;
      auto connected = RpcClient::connect(*loop_, std::move(options));
      // The next attempt is the next beat. Meanwhile the master counts the silence.
      if (!connected.ok()) continue;
      client = std::move(*connected);
    }
    const Status beaten = beat_once(*client, membership, runners.pulse(), sequence);
    // The master counts this incarnation as lost, so a further beat cannot help. A beat without an
    // answer in time keeps its connection.
    if (beaten.code() == Code::failed_precondition) return refused(beaten);
    if (beaten.code() == Code::unavailable) client.reset();
  }
}

}  // namespace leat
