// Receive slots: the memory where values from other partitions land. Every edge between partitions
// has one slot for each step in flight. The slots are allocated when a plan is registered, so that
// a producer may push before the consumer asks, and a step allocates nothing. They are in memory of
// the host, where every transport can write; but those that a wire fills (transport/direct/) are in
// memory of the device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "devices/core/device.h"

namespace leat {

// The number of steps in flight that an edge has room for.
inline constexpr uint64_t kSlotDepth = 2;

// The incoming edges of one partition of one run, and their slots. An edge is an integer, its index
// in the plan.
//
// arrived(e) is at n when the values of n steps have landed; retired(e) is at n when the consumer
// is done with those of n steps. A producer may push the value of its n-th step, from 0, when
// retired(e) >= n + 1 - kSlotDepth.
//
// Threads: deliver() from the transport's, the rest from the executor's.
class SlotTable {
 public:
  // One edge and its two timelines.
  struct Edge {
    size_t bytes = 0;
    // kSlotDepth of them; none for a token, which has 0 bytes.
    std::vector<std::unique_ptr<Buffer>> slots;
    Timeline arrived;
    Timeline retired;
  };

  // A table of a plan with this many edges, none of them open.
  explicit SlotTable(size_t edges) : edges_(edges) {}

  // Allocates the slots of an incoming edge, in memory of the host from which `device` copies. If
  // it needs no copy, values of kLeastInPages to kMostInPages bytes are in pages
  // (devices/core/pages.h). resource_exhausted if there is no memory.
  Status open(uint32_t edge, size_t bytes, Device& device);
  // The same with memory that exists: kSlotDepth buffers of `bytes` bytes, and none for a token.
  // Large ones in memory of the host begin on a page of shared memory.
  void open(uint32_t edge, size_t bytes, std::vector<std::unique_ptr<Buffer>> slots);

  // REQUIRES: the edge is open.
  Edge& edge(uint32_t edge) { return *edges_[edge]; }
  bool is_open(uint32_t edge) const { return edge < edges_.size() && edges_[edge] != nullptr; }
  size_t size() const { return edges_.size(); }
  // The slot of a turn; null for a token.
  void* slot(uint32_t edge, uint64_t turn) {
    auto& slots = edges_[edge]->slots;
    return slots.empty() ? nullptr : slots[turn % kSlotDepth]->data();
  }

  // Copies `bytes` bytes into the slot, as the value of the edge's `turn`-th step. invalid_argument
  // if the edge or the size is not the plan's, or the turn is early or late.
  Status deliver(uint32_t edge, uint64_t turn, const void* data, size_t bytes);

  // The consumer goes on without the value of `turn`, if it has not arrived: the turn is retired,
  // and a value that comes for it later is dropped. Turns close in order.
  void close(uint32_t edge, uint64_t turn);

  // Fails every wait on the table, now and later.
  void abort(const Status& cause);

 private:
  std::vector<std::unique_ptr<Edge>> edges_;
};

}  // namespace leat
