// What every object that is called from afar derives from. Includes Cap'n Proto: for .cc files.
#pragma once

#include <capnp/capability.h>

namespace leat {

// An implementation of `Interface` whose calls end when their caller goes (hazard C5): Cap'n Proto
// 0.9 keeps a call until it answers unless the method opts in, so clients that come and die leave
// their calls behind for good. Opting in is here for all methods of all interfaces. It means that
// the promise that a method returned may be destroyed at any time between two of its steps: what it
// needs is attached to it, and work handed to another thread is stopped by its own means.
//
//   class EchoServer final : public Service<Echo> { kj::Promise<void> echo(EchoContext) override;
//   };
//
// Cap'n Proto 1.0 moves the choice into the schema: this is the one place to change.
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
