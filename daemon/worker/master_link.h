// A worker's place in its cluster: it registers with the master, does what the master says, passes
// on what its runners say, and shows every 250 ms that it lives.
//
// When the connection is lost, runners go on for a while: a master that has started again takes
// them up from the worker, which registers as the one that it was and says whom it has. When the
// while has passed, or the master that is there counts the worker out, all runners are killed, for
// it takes them for gone; then the worker registers anew, with a new incarnation, until it is let
// in.
//
// Threads: "master" registers and passes news on, "heart" beats over a connection and an rpc thread
// of its own, so that neither waits for the other.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "daemon/jobs/membership.h"
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
  // Another worker has the name: so long it tries again, then it gives up and says so, once, on the
  // thread "master".
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

  // What the runners tell, for the master. Dropped while there is none to hear it, and beyond 4
  // MiB.
  void said(const std::string& job, uint64_t assembly, std::vector<std::string> lines);
  void exited(const std::string& job, uint64_t assembly, const RunnerEnd& end);
  // Tells the master that this worker is about to end: jobs are to leave it. Returns when it knows,
  // or cannot be told, at the latest after `patience`.
  void drain(std::chrono::milliseconds patience);
  // Goes to work. `runners` outlives stop().
  void start(Runners& runners);
  // Leaves the cluster: passes on what is left to say, for a second at most, and hangs up.
  void stop();

  // Why it does not try any more to be let in; ok while it does.
  Status gave_up() const;
  // Ok while it is registered; else why it is not.
  Status status() const;
  RpcLoop& loop() { return *loop_; }

 private:
  class Service;
  struct News {
    std::string job;
    uint64_t assembly = 0;
    std::vector<std::string> lines;
    RunnerEnd end = {};  // nothing is said of how: lines
  };

  explicit MasterLink(MasterLinkOptions options) : options_(std::move(options)) {}
  void live();
  Status be_member();
  Result<std::string> register_with(RpcClient& client);
  // Between two lives as a member: whether the runners go on.
  bool holds_runners(const Status& why);
  Status pass_on(RpcClient& client);
  Status tell(RpcClient& client, const News& news);
  Status tell_drain(RpcClient& client);
  void add(News news);
  void beat(const std::string& address);
  Status beat_once(RpcClient& client, uint64_t sequence);
  void lost(const Status& cause);
  bool pause(std::chrono::milliseconds time);
  void set_status(Status status);
  bool gives_up(const Status& why);

  const MasterLinkOptions options_;
  std::unique_ptr<RpcLoop> loop_, heart_loop_;
  Runners* runners_ = nullptr;
  // The thread's.
  uint64_t incarnation_ = 0;
  std::string cluster_id_;
  std::chrono::steady_clock::time_point alone_since_;
  bool name_is_taken_ = false;  // as the last try has shown
  std::optional<std::chrono::steady_clock::time_point> name_taken_since_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;
  bool drains_ = false;  // and the master is to be told
  bool drain_told_ = false;
  std::optional<Status> lost_;  // why the membership has ended
  Status status_, gave_up_;
  std::deque<News> news_;
  size_t news_bytes_ = 0;
  uint64_t dropped_lines_ = 0;
  std::chrono::milliseconds beat_every_{250};
  std::thread thread_;
};

}  // namespace leat
