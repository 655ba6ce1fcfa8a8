// The receiving half of a link over wires: it takes the values in the order of their numbers, and
// lets them arrive in the slots of the partition when they are there.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "devices/core/device_wire.h"
#include "transport/direct/wire_slots.h"
#include "transport/link.h"

namespace leat::direct {

// Threads: announcements come on the inner link's, values on the wire's, and retired slots on the
// executor's.
class Inbound {
 public:
  // `outer`: the setup of the link, whose slots this opens and raises. `inner`: the slots in which
  // announcements and tokens arrive. Both outlive it. `fail` is called with each failure of the
  // inner link or of the protocol, and `fail_wire` with that of the wire, on any thread.
  using Fail = std::function<void(const Status&)>;
  Inbound(const LinkSetup& outer, SlotTable& inner, Fail fail, Fail fail_wire);

  // Opens the slots in memory of the device, and makes the wire's end there, if values come in.
  Status open(WireKind kind, Device& device);
  // "" if no values come in.
  std::string offer() const { return receiver_ ? receiver_->offer() : std::string(); }
  Status connect(std::chrono::steady_clock::time_point deadline) {
    return receiver_ ? receiver_->connect(deadline) : Status();
  }
  // Begins to follow announcements, tokens, values and retired slots.
  void start();
  uint64_t bytes_received() const { return bytes_received_; }

  // Fails every wait on the slots, takes no value any more, and ends the wire.
  void stop(const Status& cause);
  // Destroys the wire, and returns the memory in which values arrived; null if there is none.
  // REQUIRES: it was stopped.
  std::unique_ptr<Buffer> drop();

 private:
  struct Value {
    bool announced = false;
    const WireSlot* slot = nullptr;
    uint64_t turn = 0;
  };
  // How far an incoming edge has come.
  struct Edge {
    uint32_t edge = 0;
    const WireSlot* slot = nullptr;    // null for a token
    uint64_t announced = 0;            // turns, of the callback
    std::atomic<uint64_t> arrived{0};  // turns
  };
  void await_announcement(Edge& edge);
  void take_announcements(Edge& edge);
  Status note(Edge& edge, uint64_t turn, uint64_t number);
  void receive_announced();
  void await_done();
  void take_done();
  void arrive(Edge& edge, uint64_t turn);
  void await_retired(Edge& edge, uint64_t count);
  void give_back(Edge& edge);

  const LinkSetup& outer_;
  SlotTable& inner_;
  const Fail fail_, fail_wire_;
  const WireSlots slots_;
  std::vector<std::unique_ptr<Edge>> edges_;
  std::vector<Edge*> with_slots_;  // by WireSlot::index
  std::unique_ptr<Buffer> memory_;
  std::mutex mutex_;
  std::condition_variable idle_;
  bool closed_ = false, receiving_ = false;
  // By number, as many as can be on their way.
  std::vector<Value> values_;
  uint64_t next_ = 0;  // the number of the next value that the wire is told to take
  uint64_t done_ = 0;  // of the callback
  std::atomic<uint64_t> bytes_received_{0};
  std::unique_ptr<WireReceiver> receiver_;
  Timeline* done_of_wire_ = nullptr;  // for callbacks, of which one may run while it is dropped
};

}  // namespace leat::direct
