// The data port of a worker, which the peers of all its runners dial. A dialer proves that it knows
// the key of the assembly. DataPort then hands its connection to the runner that it asked for, and
// that runner checks the rest of the hello message.
#pragma once

#include <memory>
#include <string>

#include "daemon/worker/runners.h"
#include "devices/base/log.h"
#include "transport/io/listener.h"
#include "transport/io/reactor.h"

namespace leat {

// Worker owns it. One port serves all runners of the worker, so a firewall needs one opening for
// each machine.
// Listens from open() until it is destroyed. Threads: any for address(); its callbacks run on the
// reactor's.
class DataPort final : private Listener::Gate {
 public:
  // Returns the errors of Listener::open(). `reactor` and `runners` must outlive it. `address` is
  // "host:port"; with port 0 the system chooses one.
  // `seal`: which dialers have to ask for TLS.
  static Result<std::unique_ptr<DataPort>> open(Reactor& reactor, const std::string& address,
                                                Seal seal, Runners& runners, Logger log);
  // Stops listening. Connections that were handed over stay with their runners.
  ~DataPort();

  // Returns the address with the port that was bound.
  const std::string& address() const { return listener_->address(); }

 private:
  DataPort(Runners& runners, Logger log) : runners_(runners), log_(std::move(log)) {}
  // Finds the runner by its incarnation; nothing if it has ended, which refuses the dialer.
  std::optional<Listener::Expected> expect(const LinkHello& hello) override;
  // Passes the connection on; if that fails, closes it with a line in the log.
  void accepted(Connection connection) override;
  void refused(const Status& why) override;

  Runners& runners_;
  const Logger log_;
  std::unique_ptr<Listener> listener_;
};

}  // namespace leat
