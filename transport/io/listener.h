// Accepts connections and shakes hands: the one data port of a worker. A dialer that has not yet
// proved that it knows the run's key costs one descriptor and a few hundred bytes, for a few
// seconds.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "transport/io/handshake.h"
#include "transport/io/reactor.h"
#include "transport/seal/seal.h"

namespace leat {

// Owns the listening socket and the handshakes under way. Its work runs on a reactor's thread.
class Listener {
 public:
  // The contents of a hello that is let in.
  struct Expected {
    Identity identity;
    RunKey key;
  };
  // Decides about hellos and takes the connections.
  // Threads: called on the reactor's; must not block.
  class Gate {
   public:
    // Finds the expectation by the run and source of a hello. Nothing if there is no such run here.
    virtual std::optional<Expected> expect(const LinkHello& hello) = 0;
    // Takes an authenticated connection, to make it a link or to hand it over to another process.
    virtual void accepted(Connection connection) = 0;
    // Told of a dialer that was refused, with the values that differ, for the log.
    virtual void refused(const Status& /*why*/) {}

   protected:
    ~Gate() = default;
  };
  // Limits of what dialers may cost.
  struct Options {
    SocketOptions socket;
    // From the accept to the proof.
    std::chrono::milliseconds handshake = std::chrono::seconds(5);
    // Which dialers have to ask for TLS. The listener only checks that they do: TLS begins when the
    // connection has reached its run.
    Seal seal = Seal::beyond_loopback;
    // The most handshakes at once. One more dialer is told that the listener is busy.
    size_t most_pending = 256;
  };

  // Starts to listen. `reactor` and `gate` outlive the listener.
  static Result<std::unique_ptr<Listener>> open(Reactor& reactor, const std::string& address,
                                                Gate& gate, Options options);
  // Ends the handshakes under way. The gate is not called any more after the return. REQUIRES: not
  // called from within a call of the gate.
  ~Listener();

  // With the port that was bound.
  const std::string& address() const;

 private:
  class Core;
  explicit Listener(std::shared_ptr<Core> core) : core_(std::move(core)) {}
  std::shared_ptr<Core> core_;
};

}  // namespace leat
