// Connections that peers have made to this process, until their runs take them. Peers begin at
// different times, so a connection may come before this process knows that it should expect it.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <list>
#include <mutex>
#include <optional>

#include "daemon/runner/runner_config.h"
#include "devices/base/log.h"
#include "transport/io/listener.h"

namespace leat {

// Every peer that gets here has proved that it knows the key of the assembly. The class checks the
// rest of its identity: when it arrives, that it means this process; when a run takes it, the whole
// identity. A connection that does not fit is dropped, with a line in the log.
//
// Threads: any. It is also the gate of the process's own listener, for peers on this machine.
class Arrivals final : public Listener::Gate {
 public:
  struct Options {
    RunnerAssembly assembly;
    uint64_t incarnation = 0;  // of this process
    // The most connections that wait at one time; a further one is dropped at once.
    size_t most = 1024;
    // How long a connection may wait for its run.
    std::chrono::milliseconds patience{30'000};
    Logger log;
  };
  explicit Arrivals(Options options) : options_(std::move(options)), assembly_(options_.assembly) {}

  // Takes a connection that the worker accepted and handed over. Drops a connection that is for
  // another process or assembly, or whose role is shared memory. Does not block.
  void add(Connection connection);
  // Waits for the connection of this identity and role. Errors: deadline_exceeded if it does not
  // come, or the status of `given_up` once that is not ok, see wake(). `given_up` is called under
  // the lock of this object, so it must not call back. Connections for the same place with another
  // identity are dropped.
  Result<Connection> take(const Identity& expected, SocketRole role, Deadline deadline,
                          const std::function<Status()>& given_up);
  // From now on lets in connections of this assembly. Drops the others that wait.
  // REQUIRES: no run of the old assembly is being connected.
  void advance(const RunnerAssembly& to);
  // Makes every take() ask its `given_up` again.
  void wake();
  // Connections that wait at the moment; also those that have waited for too long.
  size_t waiting() const;

 private:
  struct Waiting {
    Connection connection;
    Deadline until;
  };

  // The gate of the unix socket; the thread of the reactor calls these three, so they do not block.
  std::optional<Listener::Expected> expect(const LinkHello& hello) override;
  void accepted(Connection connection) override;
  void refused(const Status& why) override;

  RunnerAssembly assembly() const;
  // The expected identity, as far as this process knows it before a run comes.
  Identity addressed_here(const Identity& said) const;
  // Puts the connection among those that wait, in place of those that have waited for too long.
  void keep(Connection connection);
  // REQUIRES: the mutex is held.
  std::optional<Connection> find(const Identity& expected, SocketRole role);

  const Options options_;
  mutable std::mutex mutex_;
  RunnerAssembly assembly_;
  std::condition_variable changed_;
  std::list<Waiting> waiting_;
};

}  // namespace leat
