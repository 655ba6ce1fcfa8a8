// The thread of the control plane.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <utility>

#include "devices/base/log.h"
#include "devices/base/status.h"

namespace leat {

struct LoopContext;  // transport/rpc/loop_context.h: what is there on the thread, in KJ's types

// One thread, named "rpc", with one KJ event loop: every Cap'n Proto object of the process is made,
// used and destroyed on it. Work comes in through post() (any number outstanding; a mutex and an
// eventfd, 16 million a second), and goes out as plain values: readers and builders never leave the
// thread. Nothing that runs on it may block, or take longer than about a millisecond: every
// connection waits meanwhile. Calls with a deadline are in transport/rpc/call.h.
//
// Start it after any fork: a loop does not survive one. Every signal is blocked on the thread, so
// handlers run elsewhere, SIGUSR1's (which KJ reserves) among them. SIGPIPE is ignored from then
// on, in the whole process.
//
// Failure: an exception that leaves a posted function is logged and ends that function alone.
// Threads: any, unless a member says otherwise.
class RpcLoop {
 public:
  // For so long after a message or a post the thread looks for the next one before it parks, where
  // that pays (devices/base/patience.h): for loops that somebody who waits for a step goes through.
  static constexpr std::chrono::microseconds kSpin{100};

  // resource_exhausted when there is no descriptor or thread to be had.
  static Result<std::unique_ptr<RpcLoop>> start(Logger log = {},
                                                std::chrono::microseconds spin = {});
  ~RpcLoop();  // stops
  RpcLoop(const RpcLoop&) = delete;
  RpcLoop& operator=(const RpcLoop&) = delete;

  // Runs all that was posted, then destroys everything that lives on the loop, there: calls in
  // flight end with `cancelled`. Returns when the thread is gone. Not from the loop's thread.
  void stop();

  // Has `function` (movable is enough) run on the loop, in the order of the posts of this thread.
  // False: the loop has stopped, and `function` is gone unrun.
  template <typename F>
  [[nodiscard]] bool post(F function) {
    return post_task(std::make_unique<TaskOf<F>>(std::move(function)));
  }

  // Runs `function` on the loop and returns when it has run; at once, if this is its thread.
  // False: the loop has stopped, everything on it is destroyed, and `function` did not run.
  bool run(const std::function<void()>& function);

  bool on_loop_thread() const;
  // Threads: the loop's.
  LoopContext& context();
  const Logger& log() const;

 private:
  struct Task {
    virtual ~Task() = default;
    virtual void run() = 0;
  };
  template <typename F>
  struct TaskOf final : Task {
    explicit TaskOf(F f) : function(std::move(f)) {}
    void run() override { function(); }
    F function;
  };
  class Thread;

  explicit RpcLoop(std::unique_ptr<Thread> thread);
  bool post_task(std::unique_ptr<Task> task);

  std::unique_ptr<Thread> thread_;
};

}  // namespace leat
