// The sending half of a link over wires: it numbers the values, gives them to the wire, and
// announces each over the inner link.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "devices/core/device_wire.h"
#include "transport/direct/wire_slots.h"
#include "transport/link.h"

namespace leat::direct {

// Threads: push() from any, one at a time for one edge. The wire's thread raises the timelines.
class Outbound {
 public:
  // `edges`: the outgoing ones of the link. `fail` is called with each failure of the inner link or
  // of the protocol, and `fail_wire` with that of the wire, on any thread.
  using Fail = std::function<void(const Status&)>;
  Outbound(const std::vector<LinkEdge>& edges, Fail fail, Fail fail_wire);

  // True if values go this way at all.
  bool has_wire() const { return slots_.bytes() > 0; }
  // Begins with a wire that is connected, or with null if there is none. The inner link outlives
  // the wire.
  void start(std::unique_ptr<WireSender> sender, WireKind kind, Link& inner);
  // As Channel::push_in_place() and sent(). REQUIRES: the edge carries a value.
  Status push(uint32_t edge, uint64_t turn, const void* data, size_t bytes);
  Timeline& sent(uint32_t edge) { return sent_[slots_.find(edge)->index]; }
  bool carries(uint32_t edge) const { return slots_.find(edge) != nullptr; }
  uint64_t bytes_sent() const { return bytes_sent_; }

  // Fails every wait for sent().
  void fail(const Status& cause);
  // Ends the wire: no device reads for it any more after the return.
  void stop(const Status& cause);
  // Destroys the wire. REQUIRES: no thread pushes.
  void drop() { sender_.reset(); }

 private:
  struct Value {
    const WireSlot* slot = nullptr;
    uint64_t turn = 0;
  };
  Status announce(uint64_t number);
  void await_done();
  void take_done();

  const WireSlots slots_;
  const Fail fail_, fail_wire_;
  Link* inner_ = nullptr;
  WireKind kind_ = WireKind::ipc;
  std::vector<Timeline> sent_;  // by WireSlot::index
  std::mutex mutex_;            // numbers are given in the order of the wire
  uint64_t given_ = 0;
  // By number, as many as can be on their way. A place is free again when its value is done.
  std::vector<Value> values_;
  uint64_t done_ = 0;  // of the callback
  std::atomic<uint64_t> bytes_sent_{0};
  std::unique_ptr<WireSender> sender_;
};

}  // namespace leat::direct
