// Receive slots: where values from other partitions land. Every cross-partition edge of a run has
// one slot for each step in flight, allocated when the plan is registered, so that a producer may
// push before the consumer asks and nothing is allocated on a step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "devices/core/device.h"

namespace leat {

// Steps in flight that an edge has room for.
inline constexpr uint64_t kSlotDepth = 2;

// The incoming edges of one partition of one run. An edge is an integer, its index in the plan.
//
// arrived(e) is at n when the values of steps [first, first + n) have landed; retired(e) is at n
// when the consumer is done with those of n steps. A producer may push the value of its n-th step
// (from 0) when retired(e) >= n + 1 - kSlotDepth.
//
// Threads: deliver() from the transport's, the rest from the executor's.
class SlotTable {
 public:
  struct Edge {
    size_t bytes = 0;
    std::vector<std::unique_ptr<Buffer>> slots;  // kSlotDepth of them; empty for a token (0 bytes)
    Timeline arrived;
    Timeline retired;
  };

  explicit SlotTable(size_t edges) : edges_(edges) {}

  // Allocates the slots of an incoming edge, in the host's memory those of kLeastInPages to
  // kMostInPages as pages. resource_exhausted if there is no memory.
  Status open(uint32_t edge, size_t bytes, Device& device);
  // The same in memory that is there already: kSlotDepth buffers of `bytes` bytes; none for a
  // token. Large ones begin on a page of shared memory (devices/core/pages.h).
  void open(uint32_t edge, size_t bytes, std::vector<std::unique_ptr<Buffer>> slots);

  Edge& edge(uint32_t edge) { return *edges_[edge]; }
  bool is_open(uint32_t edge) const { return edge < edges_.size() && edges_[edge] != nullptr; }
  size_t size() const { return edges_.size(); }
  void* slot(uint32_t edge, uint64_t turn) {
    auto& slots = edges_[edge]->slots;
    return slots.empty() ? nullptr : slots[turn % kSlotDepth]->data();
  }

  // Lands `bytes` bytes as the value of the edge's `turn`-th step. invalid_argument if the edge,
  // the size or the turn (neither early nor late) is wrong.
  Status deliver(uint32_t edge, uint64_t turn, const void* data, size_t bytes);

  // The consumer goes on without the value of `turn`, if it has not arrived: it is retired, and
  // what comes for it is dropped. Turns close in order.
  void close(uint32_t edge, uint64_t turn);

  // Fails every wait, now and later.
  void abort(const Status& cause);

 private:
  std::vector<std::unique_ptr<Edge>> edges_;
};

}  // namespace leat
