#include "transport/direct/wire_slots.h"

#include <algorithm>

#include "devices/base/align.h"

namespace leat::direct {
namespace {

// A multiple of every device's alignment.
constexpr uint64_t kSlotAlignment = 512;

}  // namespace

WireSlots::WireSlots(const std::vector<LinkEdge>& edges) {
  for (const LinkEdge& edge : edges) {
    if (edge.bytes == 0) continue;
    const uint64_t stride = align_up(edge.bytes, kSlotAlignment);
    slots_.push_back({static_cast<uint32_t>(slots_.size()), edge.edge, edge.bytes, bytes_, stride});
    bytes_ += kSlotDepth * stride;
  }
}

const WireSlot* WireSlots::find(uint32_t edge) const {
  const auto found =
      std::lower_bound(slots_.begin(), slots_.end(), edge,
                       [](const WireSlot& slot, uint32_t wanted) { return slot.edge < wanted; });
  return found != slots_.end() && found->edge == edge ? &*found : nullptr;
}

}  // namespace leat::direct
