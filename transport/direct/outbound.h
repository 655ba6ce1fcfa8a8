// The sending half of a link over wires: it numbers the values, gives them to the wire, and
// announces each over the inner link.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "devices/core/device_wire.h"
#include "transport/direct/wire_slots.h"
#include "transport/link.h"

namespace leat::direct {

// Threads: push() from any, one at a time for one edge. The wire's thread raises the timelines.
class Outbound {
 public:
  // Called on any thread.
  struct Calls {
    // Pushes the number of a value over the inner link, whose failure is the link's.
    std::function<Status(uint32_t edge, uint64_t turn, uint64_t number)> announce;
    // The wire has failed. Returns the failure of the link.
    std::function<Status(const Status&)> fail_wire;
  };
  // `edges`: the outgoing ones of the link.
  Outbound(const std::vector<LinkEdge>& edges, Calls calls);

  // True if values go this way at all.
  bool has_wire() const { return slots_.bytes() > 0; }
  // Takes the wire, and connects it.
  Status connect(std::unique_ptr<WireSender> sender, WireKind kind,
                 std::chrono::steady_clock::time_point deadline);
  // Begins to follow what the wire has done. REQUIRES: it is connected, if values go this way.
  void start() {
    if (done_of_wire_) await_done();
  }
  // As Channel::push_in_place() and sent(). REQUIRES: the edge carries a value.
  Status push(uint32_t edge, uint64_t turn, const void* data, size_t bytes);
  Timeline& sent(uint32_t edge) { return sent_[slots_.find(edge)->index]; }
  bool carries(uint32_t edge) const { return slots_.find(edge) != nullptr; }
  uint64_t bytes_sent() const { return bytes_sent_; }

  // Ends the wire. The waits for sent() fail when no device reads for it any more.
  void stop(const Status& cause);
  // Destroys the wire. REQUIRES: it was stopped, and no thread pushes.
  void drop();

 private:
  struct Value {
    const WireSlot* slot = nullptr;
    uint64_t turn = 0;
  };
  Status announce(uint64_t number) const;
  void await_done();
  void take_done();

  const WireSlots slots_;
  const Calls calls_;
  WireKind kind_ = WireKind::ipc;
  std::vector<Timeline> sent_;  // by WireSlot::index
  std::mutex mutex_;            // numbers are given in the order of the wire
  uint64_t given_ = 0;
  // By number, as many as can be on their way. A place is free again when its value is done.
  std::vector<Value> values_;
  uint64_t done_ = 0;  // of the callback
  std::atomic<uint64_t> bytes_sent_{0};
  std::mutex wire_mutex_;  // of the next two, while the wire is made
  Status stopped_;
  std::unique_ptr<WireSender> sender_;
  Timeline* done_of_wire_ = nullptr;  // for callbacks, of which one may run while it is dropped
};

}  // namespace leat::direct
