// Rows of entries that an accelerator takes as a whole.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "devices/core/device.h"
#include "scheduler/runtime/commit_verdict.h"
#include "scheduler/runtime/device_transfers.h"
#include "scheduler/runtime/entry.h"
#include "scheduler/runtime/program.h"
#include "scheduler/runtime/turn_contexts.h"

namespace leat {

// Entries that stand side by side in a program, and enqueue the same work in every step of one
// parity. To launch kernels one by one takes longer than many of them run. So a row is issued entry
// by entry in its first step of each parity, recorded in the second, and enqueued as one piece from
// then on (CUDA graphs). A row that the device cannot record is always issued entry by entry.
//
// Within a recording, an entry follows those that its bytes come from, so that a device may do
// several at a time. A row has kernels, fetches, and at most one send, its last entry: no peer
// waits for a value longer than without rows.
//
// Threads: the one that advances the run.
class RecordedRows {
 public:
  // All outlive it. REQUIRES: the device of the program is not Device::host_visible().
  RecordedRows(Program& program, const CommitVerdict& verdict, TurnContexts& contexts,
               DeviceTransfers& transfers);

  // The end of the row that begins at entry e; e if none begins there.
  uint32_t end_of(uint64_t e) const {
    return row_at_[e] == kNone ? static_cast<uint32_t>(e) : rows_[row_at_[e]].end;
  }
  // Enqueues the row that begins at entry e, unless its entries are to be issued one by one: false
  // then. REQUIRES: a row begins there, and all of it may run in this turn.
  bool enqueue(uint64_t e, uint64_t turn);

 private:
  struct Row {
    uint32_t begin, end;  // entries
    std::vector<uint32_t> transfers;
    // By parity: the steps that were run before a recording, and what was recorded.
    std::array<uint32_t, kSlotDepth> runs{};
    std::array<std::unique_ptr<Recording>, kSlotDepth> recordings;
    bool refused = false;
  };

  bool repeats(const Entry& entry) const;
  void record(Row& row, uint64_t turn);
  void count(const Row& row);
  bool enqueue_kernels(const Entry& entry, uint64_t turn, StepContext& step);

  Program& program_;
  TurnContexts& contexts_;
  DeviceTransfers& transfers_;
  Queue& queue_;
  const std::vector<Entry>& entries_;
  std::vector<Row> rows_;
  std::vector<uint32_t> row_at_;  // by entry: the row that begins there, or kNone
};

}  // namespace leat
