// A worker's place in its cluster: it registers with the master, does what the master says, passes
// on the news of its runners, and shows at intervals that it lives (see heart.h).
//
// When the connection is lost, the runners go on for a while. A master that has started again takes
// them over: the worker registers with the incarnation that it had, and names its runners. When the
// while has passed, or when the master that is there has counted this worker as lost, the worker
// kills all runners, since the master believes that they are gone. Then it registers with a new
// incarnation, and tries again until it is let in.
//
// Threads: "master" registers and passes news on.
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

struct MasterLinkOptions {
  std::string master;    // its address
  RpcIdentity identity;  // with the role worker
  WorkerInfo info;       // the incarnation is drawn for each registration
  RunnerSurroundings surroundings;
  std::chrono::milliseconds least_pause{100}, most_pause{2000};  // between two tries
  std::chrono::milliseconds adopt_within{0};  // runners go on so long without a master
  // How long it tries again while another worker has its name. Then it gives up, and calls
  // `on_given_up` once, on the thread "master".
  std::chrono::milliseconds name_patience{30'000};
  std::function<void()> on_given_up = {};
  Logger log;
};

// Threads: any.
class MasterLink {
 public:
  // Nothing is dialled yet. resource_exhausted if there is no thread to be had.
  static Result<std::unique_ptr<MasterLink>> create(MasterLinkOptions options);
  // REQUIRES: stopped, if it was started; and its runners are gone.
  ~MasterLink();
  MasterLink(const MasterLink&) = delete;
  MasterLink& operator=(const MasterLink&) = delete;

  // Lines that a runner wrote, and how it ended: for the master. They are dropped while there is no
  // master to hear them, and beyond 4 MiB.
  void said(const std::string& job, uint64_t assembly, std::vector<std::string> lines);
  void exited(const std::string& job, uint64_t assembly, const RunnerEnd& end);
  // Tells the master that this worker is about to end, so that jobs leave it. Returns when the
  // master knows or cannot be told, at the latest after `patience`.
  void drain(std::chrono::milliseconds patience) { outbox_.drain(patience); }
  // Goes to work. `runners` outlives stop().
  void start(Runners& runners);
  // Leaves the cluster: passes on the news that are left, for a second at most, and hangs up.
  void stop();

  // Why it no longer tries to be let in; ok while it does.
  Status gave_up() const;
  // Ok while it is registered; else why it is not.
  Status status() const;
  RpcLoop& loop() { return *loop_; }

 private:
  class Service;
  // Another worker has this worker's name, as the last try has shown.
  struct TakenName {
    bool taken = false;
    std::optional<std::chrono::steady_clock::time_point> since;
  };

  explicit MasterLink(MasterLinkOptions options) : options_(std::move(options)) {}
  void live();
  Status be_member();
  Result<Heart::Membership> register_with(RpcClient& client);
  bool holds_runners(const Status& why);
  Status pass_on(RpcClient& client);
  Status tell(RpcClient& client, const WorkerOutput& output);
  Status tell_drain(RpcClient& client);
  void lost(const Status& cause);
  void set_status(Status status);
  bool gives_up_name(const Status& why);

  const MasterLinkOptions options_;
  std::unique_ptr<RpcLoop> loop_;
  std::unique_ptr<Heart> heart_;
  Runners* runners_ = nullptr;
  NewsOutbox outbox_;

  // The thread's.
  uint64_t incarnation_ = 0;  // 0: the next registration draws one
  std::string cluster_id_;
  std::chrono::steady_clock::time_point alone_since_;
  TakenName name_;

  mutable std::mutex mutex_;
  Status status_, gave_up_;
  std::thread thread_;
};

}  // namespace leat
