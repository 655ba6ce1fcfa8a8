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
  Result<std::chrono::nanoseconds> ping(Deadline deadline) override {
    return link_express_.ping(deadline);
  }
  Status send_fence(const Fence& fence) override {
    if (link_state_.failed()) return link_state_.status();
    FrameHeader header;
    header.kind = FrameKind::fence;
    header.edge = static_cast<uint32_t>(fence.verb);
    header.turn = fence.step;
    return link_express_.send(header);
  }

 protected:
  // Both are the link's own; they are not touched before it is made.
  ExpressLink(LinkState& state, Express& express) : link_state_(state), link_express_(express) {}

 private:
  LinkState& link_state_;
  Express& link_express_;
};

}  // namespace leat
