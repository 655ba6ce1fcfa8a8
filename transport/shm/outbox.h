// Slots that a sender shows to several peers of its machine, so that a value for all of them is
// written once.
//
// The sender makes the outbox, a memory file that no other process can write. It gives the file to
// each peer before the arenas are exchanged, and says where the edges to that peer have their slots
// in it. Everything else about such an edge is as for others; its counters are in the receiver's
// arena. The sender writes a slot again only when it has credit for all edges that share the slot.
//
// Each end of the exchange sends this message, little-endian:
//
//    0  8  "LEATOUT1"
//    8  8  number of places, 0 if this end shows nothing
//   16 16  for each place: edge, and the offset of its first slot in the file (8 bytes each)
//
// The file's descriptor travels with the first place.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "transport/io/descriptor.h"
#include "transport/link.h"
#include "transport/shm/arena.h"

namespace leat::shm {

// The slots of one sender. Links share it.
// Threads: any; the run orders the accesses to the slots.
class Outbox {
 public:
  // A value that is written once, and the edges that carry it.
  struct Value {
    uint64_t bytes = 0;
    std::vector<uint32_t> edges;
  };
  // Makes kSlotDepth slots for each value, no two on one page. resource_exhausted if there is no
  // memory.
  static Result<std::shared_ptr<const Outbox>> create(const std::vector<Value>& values);

  // Whether the edge has its slots here.
  bool has(uint32_t edge) const { return offsets_.contains(edge); }
  // The slot of an edge for `turn`. REQUIRES: has(edge).
  std::byte* slot(uint32_t edge, uint64_t turn) const;
  // The place of the edge's first slot in the file. REQUIRES: has(edge).
  uint64_t offset(uint32_t edge) const { return offsets_.at(edge).first; }
  int descriptor() const { return file_->descriptor(); }

 private:
  explicit Outbox(std::shared_ptr<MemoryFile> file) : file_(std::move(file)) {}

  std::shared_ptr<MemoryFile> file_;
  // By edge: the offset of its first slot, and the distance to the next.
  std::map<uint32_t, std::pair<uint64_t, uint64_t>> offsets_;
};

// The incoming edges of a link that have their slots in the peer's outbox.
class ShownSlots {
 public:
  // All incoming edges as their arena is to have them: those in the outbox without bytes.
  const std::vector<LinkEdge>& edges() const { return edges_; }
  // Opens the edges in the table for reading. Called after the arena has opened all edges.
  void open_slots(SlotTable& slots) &&;

 private:
  friend Result<ShownSlots> exchange_outboxes(int, const Outbox*, const LinkSetup&, Deadline);
  struct Edge {
    LinkEdge edge;
    std::vector<std::unique_ptr<Buffer>> slots;
  };
  std::vector<LinkEdge> edges_;
  std::vector<Edge> shown_;
};

// Tells the peer, which calls the same, which of the edges to it are in our outbox (null if there
// is none), and reads the peer's message. invalid_argument if that message is no outbox for these
// edges, deadline_exceeded if it does not come.
Result<ShownSlots> exchange_outboxes(int socket, const Outbox* mine, const LinkSetup& setup,
                                     Deadline deadline);

// The edges as an arena has them: without bytes if they are in the outbox.
std::vector<LinkEdge> edges_outside(const std::vector<LinkEdge>& edges, const Outbox* outbox);

}  // namespace leat::shm
