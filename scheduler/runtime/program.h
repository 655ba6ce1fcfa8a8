// A partition made ready to run on one device.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "devices/core/device.h"
#include "ops/state/resources.h"
#include "scheduler/plan/plan.h"
#include "scheduler/runtime/entry.h"
#include "scheduler/runtime/kernel_table.h"
#include "scheduler/runtime/value_memory.h"

namespace leat {

// A partition with its memory allocated, its kernels made, their operands bound to addresses, and
// the entries of a step listed with what each waits for. A step allocates nothing any more.
//
// Threads: one makes it; then it belongs to the run that steps it, except for the queries that are
// const, which any thread may ask.
class Program {
 public:
  // `plan`, `device`, `resources` and the parts of `exchange` outlive the program. With `profile`,
  // kernels are timed. REQUIRES: the plan is verified. The error says what could not be allocated,
  // opened or made, and on which device.
  static Result<std::unique_ptr<Program>> create(const Plan& plan, uint32_t partition,
                                                 Device& device, JobResources& resources,
                                                 Exchange exchange, bool profile = false);

  const Partition& partition() const { return partition_; }
  Device& device() { return device_; }
  Exchange& exchange() { return exchange_; }

  // The entries of a step, in order, and the members of bundles; EntryList describes these and the
  // next three.
  const std::vector<Entry>& entries() const { return list_.entries; }
  const Entry& bundled(uint32_t i) const { return list_.bundled[i]; }
  const std::vector<EntryList::Sent>& sent() const { return list_.sent; }
  uint32_t commit() const { return list_.commit; }
  uint32_t commit_end() const { return list_.commit_end; }
  bool writes_variables() const { return partition_.last_write() != kNone; }
  Commits& commits() { return resources_.commits(); }

  const KernelTable& kernels() const { return kernels_; }
  // As the functions bound(), scratch_bytes(), tile_memory() and steps_ahead() of KernelTable.
  BoundKernel& kernel(uint32_t i) { return kernels_.bound(i); }
  size_t scratch_bytes() const { return kernels_.scratch_bytes(); }
  size_t tile_memory() const { return kernels_.tile_memory(); }
  int64_t steps_ahead() const { return kernels_.steps_ahead(); }

  // Memory of the host that the device can read, for the numbers of kSlotDepth steps; null if the
  // device sees all of the host's memory.
  StepNumbers* step_numbers() const {
    return step_numbers_ ? static_cast<StepNumbers*>(step_numbers_->data()) : nullptr;
  }

  // The address of feed i on the device; null if this partition does not use it. And memory of the
  // host from which to copy it; null if the host writes to that address itself.
  void* feed(uint32_t i);
  void* feed_staging(uint32_t i) { return feed_stagings_[i] ? feed_stagings_[i]->data() : nullptr; }
  // The address of fetch i of a turn, in memory of the host, where it stays for kFetchDepth turns;
  // and the value that it copies. REQUIRES: this partition makes the fetch.
  void* fetch(uint32_t i, uint64_t turn);
  uint32_t fetch_value(uint32_t i) const { return fetch_values_[i]; }
  // A buffer of the device by way of which a fetch goes to the host. REQUIRES, too: the device has
  // a memory of its own.
  void* fetch_departure(uint32_t i, uint64_t turn) const {
    return fetch_departures_[i][turn % kSlotDepth]->data();
  }
  const void* value_address(uint32_t value, uint64_t turn) const {
    return memory_.address(value, turn);
  }
  // As the functions of ValueMemory.
  void* landing(uint32_t edge, uint64_t turn) const { return memory_.landing(edge, turn); }
  void* departure(uint32_t edge, uint64_t turn) const { return memory_.departure(edge, turn); }
  void* staging(uint32_t edge, uint64_t turn) const { return memory_.staging(edge, turn); }

 private:
  Program(const Plan& plan, uint32_t partition, Device& device, JobResources& resources,
          Exchange exchange, bool profile);
  Status make(const Plan& plan);
  Status allocate_borders(const Plan& plan);
  Status await_constants();

  const Partition& partition_;
  Device& device_;
  JobResources& resources_;
  Exchange exchange_;
  ValueMemory memory_;
  KernelTable kernels_;
  EntryList list_;
  std::vector<uint32_t> fetch_values_;                // by fetch; kNone if it is elsewhere
  std::vector<std::unique_ptr<Buffer>> fetch_rings_;  // by fetch
  std::vector<std::array<std::unique_ptr<Buffer>, kSlotDepth>> fetch_departures_;
  std::vector<std::unique_ptr<Buffer>> feed_stagings_;  // by feed
  std::unique_ptr<Buffer> step_numbers_;
};

}  // namespace leat
