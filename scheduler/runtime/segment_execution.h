// How a segment of a program is run, by one thread or by all threads of a pool.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "devices/cpu/pool.h"
#include "scheduler/runtime/commit_verdict.h"
#include "scheduler/runtime/device_transfers.h"
#include "scheduler/runtime/entry_cursor.h"
#include "scheduler/runtime/program.h"
#include "scheduler/runtime/recorded_rows.h"
#include "scheduler/runtime/run_options.h"
#include "scheduler/runtime/run_outcome.h"
#include "scheduler/runtime/tile_execution.h"
#include "scheduler/runtime/turn_contexts.h"

namespace leat {

// Runs segments, in which nothing waits for anything outside the run. It allocates nothing.
//
// By several threads: tiles are numbered in order of position and claimed with one counter. A
// claimed tile spins until the entries that it follows are done; their tiles were claimed before
// it, so that some thread is running them.
//
// A failure skips what is left of a segment, but for the writes of a step that is decided.
//
// Threads: the one that advances the run, which the pool's threads join; tiles_done() and at_work()
// from any.
class SegmentExecution {
 public:
  // All outlive it. Runs that one thread advances may share `pool`. `transfers` is null unless the
  // device has a memory of its own.
  SegmentExecution(Program& program, cpu::Pool& pool, TurnContexts& contexts,
                   CommitVerdict& verdict, RunOutcome& outcome, StepRecorder& recorder,
                   DeviceTransfers* transfers);

  // Runs the segment and returns when all of it is done or skipped.
  void run(const Segment& segment);
  // Runs an entry whose kernel may have to wait for another run. False if it waits, for what
  // `awaited` then says, or failed. A call for the same entry goes on at the tile that waited.
  bool run_blocking(uint64_t position, Awaited& awaited);
  uint64_t tiles_done() const { return tiles_.tiles_done(); }
  // As RunWork::input_wait.
  std::chrono::nanoseconds input_wait() const {
    return std::chrono::nanoseconds(input_wait_.load(std::memory_order_relaxed) / pool_.threads());
  }
  // As TileExecution::at_work().
  uint32_t at_work() const { return tiles_.at_work(); }

 private:
  struct Shared;

  // True if threads of the pool run segments together.
  bool shares() const { return pool_.threads() > 1 && !transfers_; }
  void run_in_order(const Segment& segment);
  void count_done(const Segment& segment);
  bool run_whole(const Entry& entry, uint64_t turn);
  bool measure_whole(const Entry& entry, uint64_t turn, bool records);
  uint64_t enqueue_row(uint64_t position, uint64_t end);
  void hold(const Entry& entry);
  bool flush_held(uint32_t instruction, uint64_t turn);

  uint64_t tiles_before(uint64_t position) const;
  static void join(void* shared, int thread);
  void share(Shared& shared, size_t thread);
  bool enter_turn(uint64_t turn, size_t thread);
  bool wait_for_others(const Entry& entry, uint64_t turn, size_t thread);
  bool wait_for_entry(uint32_t e, uint64_t turns, size_t thread);
  bool spin(uint32_t e, uint64_t wanted) const;
  void write_tile(uint64_t e, uint64_t turn, uint32_t tile, size_t thread);

  DeviceTransfers* const transfers_;  // null: the device sees the host's memory
  cpu::Pool& pool_;
  const std::vector<Entry>& entries_;
  Program& program_;
  TurnContexts& contexts_;
  CommitVerdict& verdict_;
  RunOutcome& outcome_;
  TileExecution tiles_;
  std::optional<RecordedRows> rows_;  // of a device with a memory of its own
  std::unique_ptr<std::atomic<uint64_t>[]>
      done_;                           // by entry: its tiles that are done, in all turns
  std::vector<uint64_t> tile_prefix_;  // tiles before each entry of a turn; the last is all of them
  std::vector<Channel*> held_;         // the channels that run_in_order() has yet to flush
  uint32_t blocking_tile_ = 0;         // where run_blocking() goes on
  std::atomic<int64_t> input_wait_{0};  // nanoseconds for which threads waited for rows of the data
  StepRecorder& recorder_;
};

}  // namespace leat
