// The functions that every link with an express socket has in common, whatever carries its large
// values.
#pragma once

#include <string>

#include "transport/link.h"
#include "transport/links/express.h"

namespace leat {

// A link whose state and express socket are members of the class that derives from it.
// Threads: as Link says.
class ExpressLink : public Link {
 public:
  Timeline& credit(uint32_t edge) override { return link_state_.credit(edge); }
  // Leaves the sockets open, so that the peer can read the cause.
  void abort(const Status& cause) override {
    link_state_.fail(cause, [&] { link_express_.send_abort(cause); });
  }
  const std::string& peer() const override { return link_state_.setup().peer; }
  Status status() const override { return link_state_.status(); }
  LinkFault fault() const override { return link_state_.fault(); }
  LinkCounters counters() const override { return link_state_.counters(); }
  std::string awaits() const override { return link_state_.awaits(); }

 protected:
  // Both belong to the derived link. They are made after this object, which does not touch them in
  // its constructor.
  ExpressLink(LinkState& state, Express& express) : link_state_(state), link_express_(express) {}

 private:
  LinkState& link_state_;
  Express& link_express_;
};

}  // namespace leat
