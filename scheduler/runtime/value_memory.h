// The memory of a program's values.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "devices/core/device.h"
#include "ops/state/resources.h"
#include "scheduler/plan/plan.h"
#include "scheduler/runtime/entry.h"

namespace leat {

// Bytes [begin, end) of a value that has bytes of its own.
struct ByteRange {
  uint32_t value = kNone;
  uint64_t begin = 0, end = 0;
};

// Allocates the memory of a partition and binds each of its values to an address, one for each slot
// parity. It owns the arena, the constants and the pages; variables belong to the job's resources,
// and slots and places to the exchange.
//
// A device with a memory of its own does not see the slots. Its values of the home `slot` are in
// landings, buffers of the device beside each slot, to which it copies what arrives. Values that it
// sends go by way of a departure, a buffer of the device, to a staging buffer of the host; a
// channel that takes the device's memory reads the departure itself.
//
// A large value that is sent is computed where its channel wants it, if it wants it somewhere: that
// is the value's place. A joined value shows its pieces, which come from elsewhere one by one, as
// one range of addresses.
//
// Threads: one at a time while bind() runs; afterwards any.
class ValueMemory {
 public:
  // All outlive it. REQUIRES: the plan is verified.
  ValueMemory(const Plan& plan, const Partition& partition, Device& device, JobResources& resources,
              const Exchange& exchange)
      : plan_(plan),
        partition_(partition),
        device_(device),
        resources_(resources),
        exchange_(exchange) {}

  // Allocates and binds everything, and opens the slots that are still closed. Call it once, before
  // the queries. resource_exhausted if memory runs out; unimplemented if the device cannot join.
  Status bind();

  // By parity; null for a value without bytes.
  const std::array<void*, kSlotDepth>& addresses(uint32_t value) const { return addresses_[value]; }
  void* address(uint32_t value, uint64_t turn) const {
    return addresses_[value][turn % kSlotDepth];
  }
  // The buffers of an edge's value; null if the device sees the slots, and for a token.
  void* landing(uint32_t edge, uint64_t turn) const {
    return transfer_buffer(transfers_.landings, edge, turn);
  }
  void* departure(uint32_t edge, uint64_t turn) const {
    return transfer_buffer(transfers_.departures, edge, turn);
  }
  void* staging(uint32_t edge, uint64_t turn) const {
    return transfer_buffer(transfers_.stagings, edge, turn);
  }
  // The other values that share the bytes of this root.
  const std::vector<uint32_t>& aliases(uint32_t root) const { return aliases_[root]; }
  // The ranges that make up bytes [begin, end) of a value: those of its pieces if it is joined.
  std::vector<ByteRange> parts_of(uint32_t value, uint64_t begin, uint64_t end) const;
  // The instruction that receives the value as a piece of a joined one; kNone if it is no such
  // piece. Only entries that touch the piece wait for it.
  uint32_t receiver_of_piece(uint32_t value) const { return pieces_[partition_.root(value)]; }
  // True if the instruction sends a value from the place that its channel gave it.
  bool is_in_place(uint32_t send) const;
  // The credits that a kernel waits for before it writes the value in its places; null if the value
  // has no place.
  const std::vector<Timeline*>* credits(uint32_t value) const {
    const auto it = places_.find(value);
    return it == places_.end() ? nullptr : &it->second;
  }

 private:
  // One buffer for each slot parity.
  using TransferBuffers = std::array<std::unique_ptr<Buffer>, kSlotDepth>;
  // By edge.
  struct Transfers {
    std::map<uint32_t, TransferBuffers> landings, departures, stagings;
  };
  static void* transfer_buffer(const std::map<uint32_t, TransferBuffers>& buffers, uint32_t edge,
                               uint64_t turn) {
    const auto found = buffers.find(edge);
    return found == buffers.end() ? nullptr : found->second[turn % kSlotDepth]->data();
  }

  Status allocate();
  Status allocate_transfers();
  Status open_resources();
  Result<void*> home_address(const PlanValue& value, uint64_t parity);
  Status bind_addresses();
  void bind_places();
  Status bind_joined();
  Result<void*> join(uint32_t value, uint64_t parity);
  void find_pieces();

  const Plan& plan_;
  const Partition& partition_;
  Device& device_;
  JobResources& resources_;
  const Exchange& exchange_;
  std::unique_ptr<Buffer> arena_;
  std::vector<std::unique_ptr<Buffer>> constants_, pages_, joined_;
  Transfers transfers_;
  std::vector<void*> resource_addresses_;
  std::vector<std::array<void*, kSlotDepth>> addresses_;  // by value
  std::vector<std::vector<uint32_t>> aliases_;            // by root
  std::map<uint32_t, std::vector<Timeline*>> places_;     // the credits of values that have places
  std::vector<uint32_t> pieces_;  // by value: the instruction that receives it as a piece, or kNone
};

}  // namespace leat
