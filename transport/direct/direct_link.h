// A link between the partitions of two devices that have wires: values go from the memory of one
// device to that of the other, and a link over the host's memory carries tokens, credits and
// failures as it always does.
//
// On that inner link the edge of a value carries its announcement, the number of the value on its
// wire. The ends of the wires are made from offers, which go over two edges more, one in each
// direction, whose indices follow those of the plan.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "devices/core/device_wire.h"
#include "transport/direct/wire_memory.h"
#include "transport/endpoint.h"
#include "transport/link.h"

namespace leat::direct {

// The kind of wires between two partitions; none if one of them has none that suits both. Both ends
// come to the same result. `ipc` needs one machine, on which it goes before `nccl`.
std::optional<WireKind> choose_wire(const Endpoint& here, const Endpoint& there);

// How a link is to have wires.
struct WireSetup {
  WireKind kind = WireKind::ipc;
  // Outlives the link.
  Device* device = nullptr;
  // The number of edges of the plan.
  uint32_t edges = 0;
  // True at one end of the two.
  bool dials = false;
  // The incarnation of the runner at the other end.
  uint64_t peer = 0;
  std::shared_ptr<WireMemory> memory;
};

// Makes one end of such a link, in this order: create(), the inner link from inner_setup(), and
// connect(). Threads: one at a time, except for cancel().
class DirectLinkMaker {
 public:
  // Opens the slots of the incoming edges in the table of `setup`, in memory of the device.
  // resource_exhausted if the device has no memory left; failed_precondition if it refuses wires.
  static Result<DirectLinkMaker> create(LinkSetup setup, WireSetup wires);
  DirectLinkMaker(DirectLinkMaker&&) noexcept;
  ~DirectLinkMaker();

  // The setup of the inner link. Its slots are not open.
  LinkSetup inner_setup() const;
  // Opens them, for a link that does not do it itself.
  Status open_inner_slots();
  // Exchanges the offers over the inner link and connects the wires. Blocks while the other end
  // does the same, at most until `deadline`. The inner link is aborted if this fails: with the
  // failure of the inner link, with the cause of cancel(), with deadline_exceeded, or with
  // failed_precondition and the reason why there can be no wires.
  Result<std::unique_ptr<Link>> connect(std::unique_ptr<Link> inner,
                                        std::chrono::steady_clock::time_point deadline);
  // Makes connect() return soon, with `cause`. Does not block. REQUIRES: what connect() returned is
  // there, if it has returned. Threads: any.
  void cancel(const Status& cause);

  class State;

 private:
  explicit DirectLinkMaker(std::unique_ptr<State> state);
  State* link_;  // of state_, and of what connect() returns, for cancel()
  std::unique_ptr<State> state_;
};

}  // namespace leat::direct
