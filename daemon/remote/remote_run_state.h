// The state of a run on one runner, and the rule by which its partitions fail together. Does not
// include Cap'n Proto.
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
#include "daemon/remote/last_steps.h"
#include "daemon/wire/run_part.h"
#include "devices/base/sha256.h"
#include "devices/base/status.h"
#include "devices/core/device.h"
#include "scheduler/plan/plan.h"
#include "transport/rpc/loop.h"

namespace leat {

class RunnerChannel;
struct RemoteRunState;

// How much an error of one partition says about the cause, from the least to the most.
enum class Failure : uint8_t {
  derived,      // a peer's error caused it
  consequence,  // unavailable: a peer or the runner is lost; another partition may know why
  loss,         // a runner is lost; its peers may know what the run waited for
  cause,        // the error itself is the cause
};

// All partitions of one run. The first cause ends the run on all of them, with that error. An error
// whose cause is elsewhere waits for the cause for kGrace. The loss of a runner waits for the
// errors that its peers saw for kGraceOfLoss, if it has peers that were connected. Threads: the
// loop's.
class RunGroup final : public std::enable_shared_from_this<RunGroup> {
 public:
  static constexpr auto kGrace = std::chrono::milliseconds(200);
  static constexpr auto kGraceOfLoss = std::chrono::milliseconds(50);

  explicit RunGroup(RpcLoop& loop) : loop_(loop) {}

  // Adds a partition. If the run has failed already, the partition fails at once.
  void add(const std::shared_ptr<RemoteRunState>& member);
  // Handles an error. `from` is the partition that failed; null: no particular one.
  void failed(const Status& status, Failure what, const RemoteRunState* from);
  // Handles the error of a call's answer, which does not say where the error comes from.
  void failed(const Status& status, const RemoteRunState* from) {
    failed(status, status.code() == Code::unavailable ? Failure::consequence : Failure::cause,
           from);
  }
  // True if the run has failed.
  bool over() const { return !cause_.ok(); }

 private:
  bool others_at_work(const RemoteRunState* than) const;
  void end_in(std::chrono::milliseconds grace);
  void end(const Status& cause);
  void end(RemoteRunState& member) const;

  RpcLoop& loop_;
  std::vector<std::weak_ptr<RemoteRunState>> members_;
  Status waiting_;  // the most telling error so far, while its cause may still arrive
  Failure waiting_as_ = Failure::derived;
  const RemoteRunState* waiting_from_ = nullptr;
  Status cause_;
};

// The last reports that a run had more turns done. Threads: the loop's.
class HeardTurns {
 public:
  // Keeps the number with the time if it is larger than the last one.
  void hear(uint64_t turns);
  // The numbers of turns that are kept, ascending.
  std::vector<HeardSteps> last() const;

 private:
  static constexpr uint64_t kKept = 16;
  std::array<HeardSteps, kKept> kept_;
  uint64_t heard_ = 0;
};

// One partition of a run, on one runner.
struct RemoteRunState {
  RemoteRunState(const RunPart& part, std::shared_ptr<const Plan> plan,
                 std::shared_ptr<RunnerChannel> channel, std::shared_ptr<RunGroup> group)
      : part(part),
        plan(std::move(plan)),
        channel(std::move(channel)),
        group(std::move(group)),
        rows(*this->plan, part.partition) {}

  const RunPart part;
  const std::shared_ptr<const Plan> plan;
  const std::shared_ptr<RunnerChannel> channel;
  const std::shared_ptr<RunGroup> group;

  // `prepared` and `connected` are at 1 when that is done; `finished` counts turns. All three fail
  // when the run fails. Threads: any.
  Timeline prepared, connected, finished;
  Timeline released;                 // never fails
  FetchRows rows;                    // stored on the loop
  std::atomic<uint64_t> allowed{0};  // turns; the job's thread writes it
  std::atomic<uint64_t> first_step{0};

  // From the last reports. The loop writes it.
  struct Reports {
    HeardTurns turns;  // of `finished`
    std::atomic<uint64_t> input_wait_us{0}, steps_ahead{0};
  } reports;

  // The options that it connects with; empty before. Threads: any.
  struct Title {
    std::string name;     // of the run
    bool trains = false;  // its steps are the job's
  };
  Title title() const { return title_.get(); }
  void set_title(Title title) { title_.set(std::move(title)); }

  // The calls that raise the run's limit, one at a time. Threads: the loop's.
  struct LimitCalls {
    bool in_flight = false;
    bool held = false;    // no further call is made
    uint64_t asked = 0;   // the largest limit that a call has asked for
    uint64_t wanted = 0;  // the largest limit that is allowed
  } limit;

  // Fails the timelines. Threads: any, for this and send_abort().
  void fail(const Status& cause);
  // Sends the cause to the runner, once. Call it before fail(): a thread that fail() wakes sends
  // the release, and the runner must get that later.
  void send_abort(const Status& cause);

 private:
  std::atomic<bool> abort_sent_{false};
  class GuardedTitle {
   public:
    Title get() const {
      const std::lock_guard lock(mutex_);
      return title_;
    }
    void set(Title title) {
      const std::lock_guard lock(mutex_);
      title_ = std::move(title);
    }

   private:
    mutable std::mutex mutex_;
    Title title_;
  } title_;
};

// The state that the runners of one assembly share. Threads: any.
struct AssemblyRuns {
  RpcLoop& loop;
  const std::array<uint8_t, 16> cluster;
  const uint64_t assembly;
  const std::string transport;

  AssemblyRuns(RpcLoop& loop, std::array<uint8_t, 16> cluster, uint64_t assembly,
               std::string transport)
      : loop(loop), cluster(cluster), assembly(assembly), transport(std::move(transport)) {}

  // Returns the group of all partitions of this run; makes it if necessary.
  std::shared_ptr<RunGroup> group(uint64_t run);
  // Returns the hash of the whole plan, and keeps that of the last plan.
  Result<Sha256Digest> digest(const std::shared_ptr<const Plan>& plan);

 private:
  std::mutex mutex_;
  std::map<uint64_t, std::weak_ptr<RunGroup>> groups_;
  std::weak_ptr<const Plan> hashed_;
  Sha256Digest digest_{};
};

}  // namespace leat
