// Slots that a sender shows to several peers of its host: what goes to all of them is written once.
//
// The sender makes the outbox, a memory file that nobody else can write, gives it to each peer
// before the arenas are exchanged, and says where the edges to that peer have their slots in it.
// All else of such an edge is as of others, its counters in the receiver's arena too. A slot is
// written again when the sender has credit for all edges that share it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "transport/io/descriptor.h"
#include "transport/link.h"
#include "transport/shm/arena.h"

namespace leat::shm {

class Outbox {
 public:
  // What is written once for these edges.
  struct Value {
    uint64_t bytes = 0;
    std::vector<uint32_t> edges;
  };
  // kSlotDepth slots for each value, no two on one page. resource_exhausted if there is no memory.
  static Result<std::shared_ptr<const Outbox>> create(const std::vector<Value>& values);

  bool has(uint32_t edge) const { return offsets_.contains(edge); }
  // REQUIRES: has(edge).
  std::byte* slot(uint32_t edge, uint64_t turn) const;
  uint64_t offset(uint32_t edge) const { return offsets_.at(edge).first; }
  int descriptor() const { return file_->descriptor(); }

 private:
  explicit Outbox(std::shared_ptr<MemoryFile> file) : file_(std::move(file)) {}

  std::shared_ptr<MemoryFile> file_;
  std::map<uint32_t, std::pair<uint64_t, uint64_t>> offsets_;  // of the first slot; to the next
};

// Those of a link's incoming edges that have their slots in the peer's outbox.
class ShownSlots {
 public:
  // All incoming edges as their arena is to have them.
  const std::vector<LinkEdge>& edges() const { return edges_; }
  // Opens the edges in the table, after the arena has opened all: to be read, and no more.
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

// Tells the peer, who calls the same, which of the edges to it are in our outbox (null: there is
// none), and takes what is in the peer's. invalid_argument if that is no outbox for these edges.
Result<ShownSlots> exchange_outboxes(int socket, const Outbox* mine, const LinkSetup& setup,
                                     Deadline deadline);

// Edges as an arena has them: without slots where they are in the outbox.
std::vector<LinkEdge> edges_outside(const std::vector<LinkEdge>& edges, const Outbox* outbox);

}  // namespace leat::shm
