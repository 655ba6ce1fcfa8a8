// What a run has come to on one runner, and how its runners fail together. No Cap'n Proto here.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "daemon/remote/fetch_rows.h"
#include "devices/base/sha256.h"
#include "devices/base/status.h"
#include "devices/core/device.h"
#include "scheduler/plan/plan.h"
#include "transport/rpc/loop.h"

namespace leat {

class RunnerChannel;
struct RemoteRunState;

// What is known about an error of one partition, from the least to the most telling.
enum class Failure : uint8_t {
  derived,      // it came from a peer's
  consequence,  // unavailable: a peer, or the runner itself, is gone; somebody may know why
  loss,         // of a runner; its peers may know what the run waited for
  cause,
};

// All partitions of one run. The first cause ends it everywhere, with the words of that cause; an
// error that has a cause elsewhere waits for it, for kGrace; and the loss of a runner for what the
// others saw of it, for kGraceOfLoss, if there are others who were at work.
// Threads: the loop's.
class RunGroup final : public std::enable_shared_from_this<RunGroup> {
 public:
  static constexpr auto kGrace = std::chrono::milliseconds(200);
  static constexpr auto kGraceOfLoss = std::chrono::milliseconds(50);

  explicit RunGroup(RpcLoop& loop) : loop_(loop) {}

  // The run ends at once on a member that comes too late.
  void add(const std::shared_ptr<RemoteRunState>& member);
  // `from`: whose error it is; null: of none alone.
  void failed(const Status& status, Failure what, const RemoteRunState* from);
  // Of an answer to a call, which says nothing about where it comes from.
  void failed(const Status& status, const RemoteRunState* from) {
    failed(status, status.code() == Code::unavailable ? Failure::consequence : Failure::cause,
           from);
  }
  bool over() const { return !cause_.ok(); }

 private:
  bool others_at_work(const RemoteRunState* than) const;
  void end_in(std::chrono::milliseconds grace);
  void end(const Status& cause);
  void end(RemoteRunState& member) const;

  RpcLoop& loop_;
  std::vector<std::weak_ptr<RemoteRunState>> members_;
  Status waiting_;  // the most telling so far, while its cause may come
  Failure waiting_as_ = Failure::derived;
  const RemoteRunState* waiting_from_ = nullptr;
  Status cause_;
};

// One partition of a run, on one runner.
struct RemoteRunState {
  RemoteRunState(uint64_t run, uint32_t partition, std::shared_ptr<const Plan> plan,
                 std::shared_ptr<RunnerChannel> channel, std::shared_ptr<RunGroup> group)
      : run(run),
        partition(partition),
        plan(std::move(plan)),
        channel(std::move(channel)),
        group(std::move(group)),
        rows(*this->plan, partition) {}

  const uint64_t run;
  const uint32_t partition;
  const std::shared_ptr<const Plan> plan;
  const std::shared_ptr<RunnerChannel> channel;
  const std::shared_ptr<RunGroup> group;

  // At 1 when that is done; with `finished`, which counts turns, they fail as the run fails.
  // Threads: any.
  Timeline prepared, connected, finished;
  Timeline released;                 // does not fail
  FetchRows rows;                    // stored on the loop
  std::atomic<uint64_t> allowed{0};  // turns, by the job's thread
  std::atomic<uint64_t> first_step{0};

  // The calls that raise the run's limit, one at a time. Threads: the loop's.
  struct LimitCalls {
    bool in_flight = false;
    bool held = false;    // no further call is made
    uint64_t asked = 0;   // the largest limit that a call has asked for
    uint64_t wanted = 0;  // the largest limit that is allowed
  } limit;

  // Threads: any, both.
  void fail(const Status& cause);
  // Tells the runner, once. Before fail(): whoever is woken releases the run, and that comes after.
  void send_abort(const Status& cause);

 private:
  std::atomic<bool> abort_sent_{false};
};

// What the runners of one assembly share. Threads: any.
struct AssemblyRuns {
  RpcLoop& loop;
  const std::array<uint8_t, 16> cluster;
  const uint64_t assembly;
  const std::string transport;

  AssemblyRuns(RpcLoop& loop, std::array<uint8_t, 16> cluster, uint64_t assembly,
               std::string transport)
      : loop(loop), cluster(cluster), assembly(assembly), transport(std::move(transport)) {}

  // Of all partitions of this run.
  std::shared_ptr<RunGroup> group(uint64_t run);
  // The hash of the whole plan; that of the last plan is kept.
  Result<Sha256Digest> digest(const std::shared_ptr<const Plan>& plan);

 private:
  std::mutex mutex_;
  std::map<uint64_t, std::weak_ptr<RunGroup>> groups_;
  std::weak_ptr<const Plan> hashed_;
  Sha256Digest digest_{};
};

}  // namespace leat
