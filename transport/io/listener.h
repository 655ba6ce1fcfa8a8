// Accepts connections and shakes hands: the one data port of a worker. Before the dialer has proved
// that it knows the run's key, it costs one descriptor and a few hundred bytes, for a few seconds.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "transport/io/handshake.h"
#include "transport/io/reactor.h"

namespace leat {

class Listener {
 public:
  // What a hello must say to be let in.
  struct Expected {
    Identity identity;
    RunKey key;
  };
  // Who decides and takes. Threads: the reactor's; must not block.
  class Gate {
   public:
    // For a hello, by its run and source; nullopt if there is no such run here.
    virtual std::optional<Expected> expect(const LinkHello& hello) = 0;
    // An authenticated connection: to be made a link, or handed over to another process.
    virtual void accepted(Connection connection) = 0;
    // For the log: who was refused, and why, with the values.
    virtual void refused(const Status& /*why*/) {}

   protected:
    ~Gate() = default;
  };
  struct Options {
    SocketOptions socket;
    std::chrono::milliseconds handshake = std::chrono::seconds(5);  // from accept to proof
    size_t most_pending = 256;  // handshakes at once; others are told that it is busy
  };

  // Starts to listen. `reactor` and `gate` outlive it.
  static Result<std::unique_ptr<Listener>> open(Reactor& reactor, const std::string& address,
                                                Gate& gate, Options options);
  // When it returns, the gate is not called any more. Threads: not from within a call of the gate.
  ~Listener();

  // With the port that was bound.
  const std::string& address() const;

 private:
  class Core;
  explicit Listener(std::shared_ptr<Core> core) : core_(std::move(core)) {}
  std::shared_ptr<Core> core_;
};

}  // namespace leat
