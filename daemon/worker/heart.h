// Shows the master at fixed intervals that this worker lives, and how far its runners are. A
// connection, an rpc loop and a thread of its own ("heart") keep the beat from waiting for whatever
// else the worker and the master have to say to each other.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "daemon/worker/runners.h"
#include "devices/base/log.h"
#include "devices/base/status.h"
#include "transport/rpc/hello.h"
#include "transport/rpc/loop.h"

namespace leat {

class RpcClient;

// Threads: any, unless a member says otherwise; start() and stop() take turns.
class Heart {
 public:
  // A membership that the master has granted.
  struct Membership {
    std::string address;  // where the master listens for beats
    std::string worker;   // its name
    uint64_t incarnation = 0;
    std::chrono::milliseconds beat_every{250};
  };

  // resource_exhausted if there is no thread to be had.
  static Result<std::unique_ptr<Heart>> create(RpcIdentity identity, const Logger& log);
  // REQUIRES: stopped, if it was started.
  ~Heart() = default;

  // Beats for this membership. `refused` is called once, on the thread "heart", if the master
  // counts this worker as lost; then it beats no more. A beat that is not answered is only late:
  // the master decides whether this worker lives. `runners` outlives stop().
  void start(Membership membership, const Runners& runners,
             std::function<void(const Status&)> refused);
  // Has the beats end soon. Does not block; also on the thread "heart".
  void end();
  // Returns when the thread has ended. Not on the thread "heart".
  void stop();
  // Destroys what is on its loop. REQUIRES: stopped.
  void close() { loop_->stop(); }

 private:
  Heart(RpcIdentity identity, std::unique_ptr<RpcLoop> loop)
      : identity_(std::move(identity)), loop_(std::move(loop)) {}
  void beat(const Membership& membership, const Runners& runners,
            const std::function<void(const Status&)>& refused);

  const RpcIdentity identity_;
  const std::unique_ptr<RpcLoop> loop_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace leat
