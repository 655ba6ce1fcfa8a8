// A partition made ready to run on one device: memory allocated, kernels made, operands bound to
// addresses, dependencies found. What registering a plan leaves behind.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "devices/core/device.h"
#include "ops/graph/kernel.h"
#include "ops/state/resources.h"
#include "scheduler/plan/plan.h"
#include "scheduler/runtime/profile.h"
#include "scheduler/runtime/tile_values.h"
#include "transport/channel.h"
#include "transport/slots.h"

namespace leat {

// A kernel of a chain with its bound operands: one for each slot parity.
struct BoundKernel {
  Kernel* kernel = nullptr;
  uint32_t instruction = 0;
  uint32_t inputs = 0, outputs = 0;  // how many
  std::vector<void*> operands;       // of each parity: the inputs, then the outputs
  std::array<KernelContext, kSlotDepth> context;
  std::vector<TileOperand> tile_operands;  // whose addresses each tile sets
};

// What an entry waits for before it may start: in turn t, until the timeline is at t + 1 - lag.
struct Await {
  Timeline* timeline = nullptr;
  uint64_t lag = 0;
  uint32_t instruction = 0;  // for people: whose value it is
};

// One entry of the list that a step runs through: `tiles` pieces, each of which runs one phase of
// one kernel, or the row phases of a whole chain. A bundle is a row of other entries, all cheap and
// one of them at least a transfer, that one thread runs in order: what they send to one peer goes
// as one frame.
struct Entry {
  enum class Kind : uint8_t { kernel, send, receive, retire, fetch, bundle };
  Kind kind = Kind::kernel;
  bool may_block = false;  // runs alone on the driver: it may have to wait for another run
  bool cheap = false;      // takes less than handing it to another thread does
  bool commits = false;    // decides that the step's writes, which follow it, are done
  bool in_place = false;   // send: the value stays as it is until the channel has sent() it
  int phase = 0;
  // Tiles [first_tile, first_tile + tiles) of the phase: of what comes or goes in pieces, those of
  // one piece.
  uint32_t first_tile = 0, tiles = 1;
  // The members, run in order for each tile: kernels_[first, last); of a bundle, bundled_.
  uint32_t first = 0, last = 0;
  uint32_t instruction = 0;
  uint32_t edge = kNone;
  Channel* channel = nullptr;      // send: where to; retire: to the one who is told, or null
  std::vector<Channel*> channels;  // bundle: of all its members
  std::vector<Await> awaits;
  // Entries that must have finished, of the same step and of the step before. Found from the bytes
  // that each entry touches, so that reused memory is ordered like data.
  std::vector<uint32_t> after, after_previous;
};

// What crosses partitions, given by the worker when it registers a plan.
struct Exchange {
  SlotTable* slots = nullptr;  // incoming; null if there are none
  // By partition of the plan; null where nothing is sent. Where all that comes from a partition is
  // given back over the channel to it, retired values are told together.
  std::vector<Channel*> channels;
};

class Program {
 public:
  // `partition`, `device`, `resources` and `exchange`'s parts outlive the program.
  // With `profile`, kernels are timed. REQUIRES: the plan is verified.
  static Result<std::unique_ptr<Program>> create(const Plan& plan, uint32_t partition,
                                                 Device& device, JobResources& resources,
                                                 Exchange exchange, bool profile = false);
  ~Program();

  const Partition& partition() const { return *partition_; }
  const std::vector<Entry>& entries() const { return entries_; }
  // The members of bundles.
  const Entry& bundled(uint32_t i) const { return bundled_[i]; }
  // What values that are sent in place raise when their bytes have left: a turn is over when all
  // have.
  const std::vector<Timeline*>& sent() const { return sent_; }
  // Where a step is committed: the entry that decides it, then [commit(), commit_end()) in which
  // nothing waits for anybody. kNone if the partition does not commit.
  uint32_t commit() const { return commit_; }
  uint32_t commit_end() const { return commit_end_; }
  bool writes_variables() const { return partition_->last_write() != kNone; }
  Commits& commits() { return resources_->commits(); }
  uint32_t kernels() const { return static_cast<uint32_t>(kernels_.size()); }
  BoundKernel& kernel(uint32_t i) { return *kernels_[i]; }
  Device& device() { return *device_; }
  Exchange& exchange() { return exchange_; }
  // For each thread: kernels' scratch memory, then from tile_memory() on that of chains' values.
  size_t scratch_bytes() const { return scratch_bytes_ + tile_memory_bytes_; }
  size_t tile_memory() const { return scratch_bytes_; }

  // Where feed i goes (null if this partition does not use it), and where fetch i of turn t is.
  void* feed(uint32_t i);
  void* fetch(uint32_t i, uint64_t turn);
  const void* value_address(uint32_t value, uint64_t turn) const;
  uint32_t fetch_value(uint32_t i) const { return fetch_values_[i]; }
  // Null for transfers, and in a program that is not profiled.
  const TimedKernel* timed_kernel(uint32_t instruction) const {
    return timed_kernels_.empty() ? nullptr : timed_kernels_[instruction];
  }

 private:
  class Builder;
  Program() = default;

  const Plan* plan_ = nullptr;
  const Partition* partition_ = nullptr;
  Device* device_ = nullptr;
  JobResources* resources_ = nullptr;
  Exchange exchange_;
  std::unique_ptr<Buffer> arena_, workspace_;
  std::vector<std::unique_ptr<Buffer>> constants_, pages_;
  std::vector<std::unique_ptr<Buffer>> joined_;           // what shows the bytes of others
  std::vector<std::array<void*, kSlotDepth>> addresses_;  // by value
  std::vector<std::unique_ptr<Kernel>> owned_kernels_;    // by instruction; null for transfers
  std::vector<const TimedKernel*> timed_kernels_;         // by instruction; empty if not profiled
  std::vector<std::unique_ptr<BoundKernel>> kernels_;
  std::vector<Entry> entries_, bundled_;
  uint32_t commit_ = kNone, commit_end_ = kNone;
  std::vector<Timeline*> sent_;
  std::vector<uint32_t> fetch_values_;  // by fetch; kNone if it is elsewhere
  std::vector<std::unique_ptr<Buffer>> fetch_rings_;
  size_t scratch_bytes_ = 0, tile_memory_bytes_ = 0;  // multiples of 64
};

}  // namespace leat
