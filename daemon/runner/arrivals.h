// Connections that peers have made to this process, until the runs that they are for take them.
// Peers begin at different times: one may come before this end was told whom to expect.
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

// Whoever comes knows the key of the assembly; what else it says is judged here: at once, whether
// it means this process, and the whole of it when its run takes it. What does not fit is dropped,
// with a line in the log.
//
// Threads: any. As a gate it serves the process's own listener, for peers of the machine.
class Arrivals final : public Listener::Gate {
 public:
  struct Options {
    RunnerAssembly assembly;
    uint64_t incarnation = 0;                    // of this process
    size_t most = 1024;                          // that wait at one time
    std::chrono::milliseconds patience{30'000};  // how long one may wait
    Logger log;
  };
  explicit Arrivals(Options options) : options_(std::move(options)), assembly_(options_.assembly) {}

  // A connection that the worker accepted and handed over.
  void add(Connection connection);
  // Waits for the connection of this identity and role. deadline_exceeded if it does not come, or
  // what `given_up` says once that is not ok: see wake().
  Result<Descriptor> take(const Identity& expected, SocketRole role, Deadline deadline,
                          const std::function<Status()>& given_up);
  // From now on those of this assembly are let in. The others that have come are dropped.
  void advance(const RunnerAssembly& to);
  // Has every take() ask whether it is given up.
  void wake();
  size_t waiting() const;

 private:
  struct Waiting {
    Connection connection;
    Deadline until;
  };

  std::optional<Listener::Expected> expect(const LinkHello& hello) override;
  void accepted(Connection connection) override;
  void refused(const Status& why) override;

  RunnerAssembly assembly() const;
  Identity addressed_here(const Identity& said) const;
  void keep(Connection connection);
  std::optional<Connection> find(const Identity& expected, SocketRole role);

  const Options options_;
  mutable std::mutex mutex_;
  RunnerAssembly assembly_;
  std::condition_variable changed_;
  std::list<Waiting> waiting_;
};

}  // namespace leat
