// The io thread: one Asio event loop and the thread that runs it. Sockets of the data plane are
// read and, when full, written there; HTTP, timers and signals of the process may share it through
// context(). Asio says when a descriptor is ready; the system calls are the watchers' own.
#pragma once

#include <chrono>
#include <functional>
#include <memory>

#include "devices/base/status.h"
#include "transport/io/descriptor.h"

namespace boost::asio {
class io_context;
}

namespace leat {

class Reactor {
 public:
  // Who is told that a descriptor is ready. Threads: called on the reactor's.
  class Watched {
   public:
    // There is something to read. False: never again.
    virtual bool readable() = 0;
    // There is room to write, after want_write().
    virtual void writable() = 0;

   protected:
    ~Watched() = default;
  };

  // A descriptor that is watched as long as this lives, for reading all the time. When the
  // destructor returns, no call runs and none will. The descriptor itself stays open.
  // Threads: destroyed by any thread that the reactor's does not wait for.
  class Watch {
   public:
    ~Watch();
    // Calls writable() once, when there is room. Threads: any.
    void want_write();

   private:
    friend class Reactor;
    struct State;
    explicit Watch(std::shared_ptr<State> state) : state_(std::move(state)) {}
    std::shared_ptr<State> state_;
  };

  // Starts the thread. It looks for work without sleeping for `spin` after the last.
  explicit Reactor(std::chrono::microseconds spin = {});
  // REQUIRES: no watch is left.
  ~Reactor();
  Reactor(const Reactor&) = delete;
  Reactor& operator=(const Reactor&) = delete;

  // resource_exhausted or unavailable if the system has no room to watch it.
  Result<std::unique_ptr<Watch>> watch(int fd, Watched& watched);
  // Runs `work` on the reactor's thread, later.
  void post(std::function<void()> work);
  // Runs `work` on the reactor's thread, after `delay`.
  void post_after(std::chrono::milliseconds delay, std::function<void()> work);
  // Runs `work` on the reactor's thread, and returns when it is done. At once if called there.
  void sync(const std::function<void()>& work);
  bool is_this_thread() const;
  boost::asio::io_context& context();

 private:
  struct Loop;
  std::unique_ptr<Loop> loop_;
};

}  // namespace leat
