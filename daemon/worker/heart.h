// The heartbeat of a worker: it shows the master at fixed intervals that this worker lives, and the
// progress of its runners. It has its own connection, rpc loop and thread ("heart"), so that a beat
// does not wait for other messages between the worker and the master.
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

// MasterLink owns it for the life of the worker, and starts it once for each membership. Beats that
// are late are not made up for. A lost connection is opened again with the next beat.
// Threads: any, unless a member says otherwise; calls of start() and stop() alternate.
class Heart {
 public:
  // A membership that the master has granted.
  struct Membership {
    std::string address;  // the master listens for beats there
    std::string worker;   // its name
    uint64_t incarnation = 0;
    // Chosen by the master.
    std::chrono::milliseconds beat_every{250};
  };

  // resource_exhausted if no thread can be started.
  static Result<std::unique_ptr<Heart>> create(RpcIdentity identity, const Logger& log);
  // REQUIRES: it was never started, or it was stopped.
  ~Heart() = default;

  // Beats for this membership. If the master counts this worker as lost, `refused` is called once,
  // on the thread "heart", and the beats end. An unanswered beat has no consequence here: the
  // master decides whether this worker lives. `runners` must exist until stop() returns. Does not
  // block; the first beat goes out at once.
  void start(Membership membership, const Runners& runners,
             std::function<void(const Status&)> refused);
  // Makes the beats end soon. Does not block. Threads: any, including "heart".
  void end();
  // Blocks until the thread has ended. Threads: any except "heart".
  void stop();
  // Destroys all objects on its loop. REQUIRES: it is stopped.
  void close() { loop_->stop(); }

 private:
  Heart(RpcIdentity identity, std::unique_ptr<RpcLoop> loop)
      : identity_(std::move(identity)), loop_(std::move(loop)) {}
  // The function of the thread. An answer is awaited for 1 s at most.
  void beat(const Membership& membership, const Runners& runners,
            const std::function<void(const Status&)>& refused);

  const RpcIdentity identity_;
  const std::unique_ptr<RpcLoop> loop_;
  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by the mutex.
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace leat
