// The thread of the control plane and its event loop.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <utility>

#include "devices/base/log.h"
#include "devices/base/status.h"

namespace leat {

// The inside of the thread, in KJ's types: transport/rpc/loop_context.h.
struct LoopContext;

// One thread, named "rpc", with one event loop of KJ. Every object of Cap'n Proto in the process is
// made, used and destroyed on it. Work comes in through post(), a mutex and an eventfd that take 16
// million posts a second. Plain values go out: readers and builders never leave the thread. Nothing
// that runs there may block or take longer than about a millisecond, since every connection waits
// meanwhile. Calls with a deadline are in transport/rpc/call.h.
//
// The process starts the loop after any fork, since a loop does not survive one. Every signal is
// blocked on the thread, so that handlers run elsewhere, also that of SIGUSR1, which KJ reserves.
// SIGPIPE is ignored from then on in the whole process.
//
// Failure: an exception that leaves a posted function is logged, and ends that function alone.
// Threads: any, unless a member says otherwise.
class RpcLoop {
 public:
  // A spin for loops that a step goes through. After a message or a post the thread looks for the
  // next one for this long before it parks, if that pays (devices/base/patience.h).
  static constexpr std::chrono::microseconds kSpin{100};

  // Starts the thread. resource_exhausted if there is no descriptor or no thread left.
  static Result<std::unique_ptr<RpcLoop>> start(Logger log = {},
                                                std::chrono::microseconds spin = {});
  // Stops the loop.
  ~RpcLoop();
  RpcLoop(const RpcLoop&) = delete;
  RpcLoop& operator=(const RpcLoop&) = delete;

  // Runs everything that was posted, then destroys on the thread everything that lives on the loop:
  // calls in flight end with `cancelled`. Returns when the thread is gone.
  // Threads: any but the loop's.
  void stop();

  // Runs `function`, which only has to be movable, on the loop, later and in the order of this
  // thread's posts. False if the loop has stopped; then `function` is destroyed unrun.
  template <typename F>
  [[nodiscard]] bool post(F function) {
    return post_task(std::make_unique<TaskOf<F>>(std::move(function)));
  }

  // Runs `function` on the loop and returns when it has run; at once if called there. False if the
  // loop has stopped: everything on it is destroyed, and `function` did not run.
  bool run(const std::function<void()>& function);

  bool on_loop_thread() const;
  // The inside of the thread.
  // Threads: the loop's.
  LoopContext& context();
  const Logger& log() const;

 private:
  // A posted function, whatever its type.
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
