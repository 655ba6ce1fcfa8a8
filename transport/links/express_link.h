// What links with an express socket have in common, whatever carries their values.
#pragma once

#include <string>

#include "transport/link.h"
#include "transport/links/express.h"

namespace leat {

class ExpressLink : public Link {
 public:
  Timeline& credit(uint32_t edge) override { return link_state_.credit(edge); }
  // The sockets stay, for the peer to read the cause.
  void abort(const Status& cause) override {
    link_state_.fail(cause, [&] { link_express_.send_abort(cause); });
  }
  const std::string& peer() const override { return link_state_.setup().peer; }
  Status status() const override { return link_state_.status(); }
  LinkFault fault() const override { return link_state_.fault(); }
  LinkCounters counters() const override { return link_state_.counters(); }
  std::string awaits() const override { return link_state_.awaits(); }

 protected:
  // Both are the link's own; they are not touched before it is made.
  ExpressLink(LinkState& state, Express& express) : link_state_(state), link_express_(express) {}

 private:
  LinkState& link_state_;
  Express& link_express_;
};

}  // namespace leat
