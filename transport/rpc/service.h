// The base of every object that peers call. Includes Cap'n Proto: for .cc files.
#pragma once

#include <capnp/capability.h>

namespace leat {

// An implementation of `Interface` whose calls end when their caller goes. Cap'n Proto 0.9
// otherwise keeps a call until it answers, so that clients that come and die leave their calls
// behind for good. This class opts in for all methods of all interfaces.
//
// The promise that a method returned may therefore be destroyed between any two of its steps.
// Everything that the promise needs is attached to it, and work that was handed to another thread
// is stopped by its own means.
//
//   class EchoServer final : public Service<Echo> {
//     kj::Promise<void> echo(EchoContext) override;
//   };
//
// Cap'n Proto 1.0 moves the choice into the schema, and this is the one place to change then.
template <typename Interface>
class Service : public Interface::Server {
 public:
  using DispatchCallResult = capnp::Capability::Server::DispatchCallResult;

  DispatchCallResult dispatchCall(
      uint64_t interface_id, uint16_t method,
      capnp::CallContext<capnp::AnyPointer, capnp::AnyPointer> context) override {
    context.allowCancellation();
    return Interface::Server::dispatchCall(interface_id, method, context);
  }
};

}  // namespace leat
