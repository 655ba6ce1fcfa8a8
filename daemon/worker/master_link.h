// The connection of a worker to its master: the link registers the worker, executes the master's
// orders, sends the output and the ends of its runners, and shows at intervals that the worker
// lives (see heart.h).
//
// When the connection is lost, the runners continue for a limited time. A restarted master takes
// them over: the worker registers with its old incarnation and lists its runners. If the time has
// passed, or if the master has counted this worker as lost, the worker kills all runners, since the
// master believes that they have ended. Then it registers with a new incarnation, and tries again
// until the master accepts it.
//
// Threads: the thread "master" registers the worker and sends the news of the runners.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "daemon/jobs/membership.h"
#include "daemon/worker/heart.h"
#include "daemon/worker/news_outbox.h"
#include "daemon/worker/runners.h"
#include "devices/base/log.h"
#include "devices/base/status.h"
#include "transport/rpc/hello.h"
#include "transport/rpc/loop.h"

namespace leat {

class RpcClient;

// The settings of a MasterLink. The pauses between two attempts to register double, from
// `least_pause` to `most_pause`; while runners wait for a master they stay at 250 ms or less, so
// that a restarted master finds the worker soon.
struct MasterLinkOptions {
  std::string master;    // its address
  RpcIdentity identity;  // with the role worker
  WorkerInfo info;       // without an incarnation, which is drawn for a new registration
  RunnerSurroundings surroundings;
  std::chrono::milliseconds least_pause{100}, most_pause{2000};  // between two attempts
  std::chrono::milliseconds adopt_within{0};  // how long runners continue without a master
  // How long it tries again while another worker has its name. After that it calls `on_given_up`
  // once, on the thread "master", and ends.
  std::chrono::milliseconds name_patience{30'000};
  std::function<void()> on_given_up = {};
  Logger log;
};

// Threads: any.
class MasterLink {
 public:
  // Does not connect yet. resource_exhausted if no thread can be started.
  static Result<std::unique_ptr<MasterLink>> create(MasterLinkOptions options);
  // REQUIRES: it is stopped, if it was started, and its runners have ended.
  ~MasterLink();
  MasterLink(const MasterLink&) = delete;
  MasterLink& operator=(const MasterLink&) = delete;

  // Queue lines that a runner wrote, and the end of a runner, for the master. Lines beyond 4 MiB
  // are dropped, and so are all news when the worker registers as a new one.
  void wrote(const std::string& job, uint64_t assembly, std::vector<std::string> lines);
  void exited(const std::string& job, uint64_t assembly, const RunnerEnd& end);
  // Tells the master that this worker is about to end, so that jobs leave it. Returns when the
  // master knows or cannot be told, at the latest after `patience`.
  void drain(std::chrono::milliseconds patience) { outbox_.drain(patience); }
  // Starts the thread. `runners` must exist until stop() returns.
  void start(Runners& runners);
  // Leaves the cluster: sends the remaining news, for at most a second, and disconnects. Blocks.
  void stop();

  // Returns the reason why it no longer tries to register; ok while it does.
  Status gave_up() const;
  // Ok while the worker is registered; otherwise the reason why not.
  Status status() const;
  RpcLoop& loop() { return *loop_; }

 private:
  class Service;
  // The state of attempts to register while another worker has this worker's name.
  struct TakenName {
    bool taken = false;  // by the answer to the last attempt
    // The first of the attempts in a row that were refused for the name.
    std::optional<std::chrono::steady_clock::time_point> since;
  };

  explicit MasterLink(MasterLinkOptions options) : options_(std::move(options)) {}
  // The life of the thread: one membership after the other, until stop() or until it renounces its
  // name.
  void live();
  // Connects, registers, and sends news until the membership ends. Returns why it ended, or why it
  // did not begin. Each call to the master has a deadline of 10 s.
  Status be_member();
  // The master's answer has the address for beats and their interval. failed_precondition if the
  // master is that of another cluster than the last one, whose runners this worker still has, or
  // if it has counted this incarnation as lost.
  Result<Heart::Membership> register_with(RpcClient& client);
  // True if the runners may go on until the next registration: the master has not refused this
  // incarnation, the worker does not stop, and `adopt_within` has not passed.
  bool holds_runners(const Status& why);
  // Sends the news of the outbox until the membership ends. Lines that the master refuses are lost
  // with a warning; any other error ends the membership.
  Status pass_on(RpcClient& client);
  Status tell(RpcClient& client, const WorkerOutput& output);
  Status tell_drain(RpcClient& client);
  // Ends the membership. Threads: any.
  void lost(const Status& cause);
  void set_status(Status status);
  // True if another worker has had the name for `name_patience`, so that attempts are useless.
  bool renounces_name(const Status& why);

  const MasterLinkOptions options_;
  std::unique_ptr<RpcLoop> loop_;
  std::unique_ptr<Heart> heart_;
  Runners* runners_ = nullptr;
  NewsOutbox outbox_;

  // The members below belong to the thread "master".
  uint64_t incarnation_ = 0;  // 0: the next registration draws one
  std::string cluster_id_;
  std::chrono::steady_clock::time_point alone_since_;
  TakenName name_;

  mutable std::mutex mutex_;  // guards the two below
  Status status_, gave_up_;
  std::thread thread_;
};

}  // namespace leat
