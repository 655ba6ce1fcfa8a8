#include "transport/slots.h"

#include <cstring>

#include "devices/base/text.h"
#include "devices/core/pages.h"

namespace leat {

Status SlotTable::open(uint32_t edge, size_t bytes, Device& device) {
  auto opened = std::make_unique<Edge>();
  opened->bytes = bytes;
  for (uint64_t i = 0; bytes > 0 && i < kSlotDepth; ++i) {
    // Pages can be joined with others to one value without a copy (devices/core/pages.h).
    const bool in_pages = device.host_visible() && bytes >= kLeastInPages && bytes <= kMostInPages;
    auto slot = in_pages ? allocate_pages(bytes) : device.allocate_host(bytes);
    if (!slot.ok()) return slot.status().while_doing(cat("opening the slots of edge ", edge));
    opened->slots.push_back(std::move(*slot));
  }
  // The edge is open only when all of its slots are there.
  edges_[edge] = std::move(opened);
  return {};
}

void SlotTable::open(uint32_t edge, size_t bytes, std::vector<std::unique_ptr<Buffer>> slots) {
  edges_[edge] = std::make_unique<Edge>();
  edges_[edge]->bytes = bytes;
  edges_[edge]->slots = std::move(slots);
}

void SlotTable::close(uint32_t edge, uint64_t turn) {
  // In this order: a thread that sees the turn retired must not find that it never came.
  edges_[edge]->arrived.signal(turn + 1);
  edges_[edge]->retired.signal(turn + 1);
}

// Turns arrive in order here: the senders of one process never pass over one.
Status SlotTable::deliver(uint32_t edge, uint64_t turn, const void* data, size_t bytes) {
  if (!is_open(edge))
    return invalid_argument(cat("edge ", edge, ": this partition has no such incoming edge"));
  Edge& e = *edges_[edge];
  if (bytes != e.bytes) {
    return invalid_argument(cat("edge ", edge, ": expected ", e.bytes, " bytes, received ", bytes));
  }
  const uint64_t arrived = e.arrived.value(), retired = e.retired.value();
  if (turn != arrived || turn >= retired + kSlotDepth) {
    return invalid_argument(cat("edge ", edge, ": expected turn ", arrived, " with at most ",
                                kSlotDepth, " in flight (", retired, " retired), received turn ",
                                turn));
  }
  // The bytes are there before the turn counts as arrived.
  if (bytes > 0) std::memcpy(slot(edge, turn), data, bytes);
  e.arrived.signal(turn + 1);
  return {};
}

void SlotTable::abort(const Status& cause) {
  for (auto& edge : edges_) {
    if (!edge) continue;
    edge->arrived.fail(cause);
    edge->retired.fail(cause);
  }
}

}  // namespace leat
