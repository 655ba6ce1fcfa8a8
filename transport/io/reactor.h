// The io thread: one thread with an event loop of Asio. The data plane's sockets are read there,
// and written when they were full. HTTP, timers and signals of the process may share the loop
// through context(). The reactor says when a descriptor is ready; the system calls on it are made
// by the code that watches it.
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

// Owns the thread and the loop. Everything that uses a reactor ends before it.
// Threads: any, unless a member says otherwise.
class Reactor {
 public:
  // The code that is told about a descriptor.
  // Threads: called on the reactor's.
  class Watched {
   public:
    // There is something to read, or an error to find by reading. False: it is never called again.
    virtual bool readable() = 0;
    // There is room to write, after want_write().
    virtual void writable() = 0;

   protected:
    ~Watched() = default;
  };

  // A descriptor that is watched while this object lives: always for reading, and for writing on
  // demand. When the destructor returns, no call runs and none will. The descriptor itself stays
  // open.
  // Threads: destroyed by any thread for which the reactor's does not wait.
  class Watch {
   public:
    ~Watch();
    // Asks for one call of writable(), when there is room.
    // Threads: any.
    void want_write();
    // Asks for one more call of readable(), although the descriptor may have nothing to read.
    // Threads: any.
    void read_again();

   private:
    friend class Reactor;
    struct State;
    explicit Watch(std::shared_ptr<State> state) : state_(std::move(state)) {}
    std::shared_ptr<State> state_;
  };

  // Starts the thread. It looks for work for `spin` after the last work before it sleeps.
  explicit Reactor(std::chrono::microseconds spin = {});
  // Stops and joins the thread; posted work that has not run is dropped. REQUIRES: no watch is
  // left.
  ~Reactor();
  Reactor(const Reactor&) = delete;
  Reactor& operator=(const Reactor&) = delete;

  // Begins to watch. resource_exhausted or unavailable if the system cannot. `watched` outlives the
  // watch.
  Result<std::unique_ptr<Watch>> watch(int fd, Watched& watched);
  // Runs `work` on the reactor's thread, later.
  void post(std::function<void()> work);
  // The same after `delay`.
  void post_after(std::chrono::milliseconds delay, std::function<void()> work);
  // Runs `work` on the reactor's thread and returns when it is done; at once if called there.
  void sync(const std::function<void()>& work);
  bool is_this_thread() const;
  // The loop itself, for sockets and timers of Asio. One thread runs it.
  boost::asio::io_context& context();

 private:
  struct Loop;
  std::unique_ptr<Loop> loop_;
};

}  // namespace leat
