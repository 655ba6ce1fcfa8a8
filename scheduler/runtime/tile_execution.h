// Runs one tile of an entry: it runs kernels, or moves a value.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "ops/graph/kernel.h"
#include "scheduler/runtime/program.h"
#include "scheduler/runtime/step_recorder.h"
#include "scheduler/runtime/turn_contexts.h"

namespace leat {

// Runs tiles of a program's entries. Each compute thread has scratch memory of its own here; thread
// 0 is the one that advances the run. A tile that fails reports it to its turn's context, which
// fails the run.
//
// Threads: run() from each compute thread; the rest as it says.
class TileExecution {
 public:
  // `program`, `contexts` and `recorder` outlive it. Tiles run on `threads` threads.
  TileExecution(Program& program, TurnContexts& contexts, StepRecorder& recorder, int threads);

  // Runs a tile of any entry on `thread`, while other threads may run other tiles of the same
  // entry. False if it failed.
  bool run(const Entry& entry, uint64_t turn, uint32_t tile, size_t thread);
  // Runs a tile of a kernel's entry on thread 0, while no other thread runs a tile of that entry.
  // Returns what stopped it: failed, or blocked, where the kernel's context says on what; else
  // done. Cheaper than run(): it does not copy the kernel's context, does not record anything, and
  // leaves enter() to its caller.
  Progress run_exclusively(const Entry& entry, uint64_t turn, uint32_t tile) {
    return run_kernels<KernelContext&>(entry, turn, tile, 0);
  }

  // The same for an entry that reads rows of a data set. The reader, which may be the first of a
  // chain, is measured by itself: its nanoseconds are added to `reading`, and are an event of its
  // own if the turn `records`.
  Progress read_exclusively(const Entry& entry, uint64_t turn, uint32_t tile, bool records,
                            int64_t& reading) {
    return run_reader<KernelContext&>(entry, turn, tile, 0, records, reading);
  }

  // Notes that the thread runs kernels of the entry from now on; or that it is in none, since it
  // waits, moves values, or has nothing to do. Entries that follow each other need no rest()
  // between them. Threads: `thread`.
  void enter(size_t thread, const Entry& entry) {
    worked_[thread].at.store(entry.instruction, std::memory_order_relaxed);
  }
  void rest(size_t thread) { worked_[thread].at.store(kNone, std::memory_order_relaxed); }

  // Counts tiles that were done otherwise. Threads: thread 0.
  void count(uint64_t tiles) { worked_[0].add(tiles); }

  // Rises with every tile that a kernel has done, so that a step that takes long is seen to go on.
  // Threads: any.
  uint64_t tiles_done() const;
  // The instruction whose kernel runs; the first in the plan's order if threads run several, for
  // the others wait for it. kNone if none runs. Threads: any.
  uint32_t at_work() const;

 private:
  // How many tiles one thread has run. Only that thread writes it, and no other thread's count
  // shares its cache line.
  struct alignas(64) Worked {
    std::atomic<uint64_t> tiles{0};
    std::atomic<uint32_t> at{kNone};  // the instruction that it runs, until rest()
    void add(uint64_t more = 1) {
      tiles.store(tiles.load(std::memory_order_relaxed) + more, std::memory_order_relaxed);
    }
  };

  template <typename Context>
  Progress run_kernels(const Entry& entry, uint64_t turn, uint32_t tile, size_t thread) {
    return run_members<Context>(entry, turn, tile, thread, entry.first, entry.last);
  }
  // The bound kernels [first, last) of the entry.
  template <typename Context>
  Progress run_members(const Entry& entry, uint64_t turn, uint32_t tile, size_t thread,
                       uint32_t first, uint32_t last);
  template <typename Context>
  Progress run_reader(const Entry& entry, uint64_t turn, uint32_t tile, size_t thread, bool records,
                      int64_t& reading);
  Progress run_in_tile_memory(const BoundKernel& bound, KernelContext context, int phase,
                              uint32_t tile) const;
  bool run_bundle(const Entry& bundle, uint64_t turn, size_t thread);
  bool run_transfer(const Entry& entry, uint64_t turn);

  bool record_kernels(const Entry& entry, uint64_t turn, uint32_t tile, size_t thread);
  bool record_transfer(const Entry& entry, uint64_t turn, size_t thread);

  Program& program_;
  TurnContexts& contexts_;
  StepRecorder& recorder_;
  const size_t threads_;
  std::vector<std::vector<std::byte>> scratch_storage_;
  std::vector<std::byte*> scratch_;   // by thread
  std::unique_ptr<Worked[]> worked_;  // by thread
};

// The one loop that runs kernels: some of the entry's kernels in order, on one tile. `Context` is
// KernelContext where threads share the bound kernel, and each needs a context of its own, or
// KernelContext& where they do not.
template <typename Context>
inline Progress TileExecution::run_members(const Entry& entry, uint64_t turn, uint32_t tile,
                                           size_t thread, uint32_t first, uint32_t last) {
  for (uint32_t k = first; k < last; ++k) {
    BoundKernel& bound = program_.kernel(k);
    Context context = bound.context[turn % kSlotDepth];
    context.scratch = scratch_[thread];
    context.step = &contexts_.of(turn);
    const int phase = entry.phase < 0 ? bound.kernel->row_phase() : entry.phase;
    const Progress progress = entry.phase >= 0 || bound.tile_operands.empty()
                                  ? bound.kernel->run(context, phase, static_cast<int>(tile))
                                  : run_in_tile_memory(bound, context, phase, tile);
    if (progress > Progress::pending) return progress;
    worked_[thread].add();
  }
  return Progress::done;
}

template <typename Context>
inline Progress TileExecution::run_reader(const Entry& entry, uint64_t turn, uint32_t tile,
                                          size_t thread, bool records, int64_t& reading) {
  Worked& worked = worked_[thread];
  const int64_t begin = StepRecorder::now();
  Progress progress = run_members<Context>(entry, turn, tile, thread, entry.first, entry.first + 1);
  const int64_t read = StepRecorder::now();
  reading += read - begin;
  if (progress != Progress::done) return progress;
  if (records) recorder_.add(thread, StepEvent::Kind::kernel, entry.instruction, turn, begin, read);
  if (entry.first + 1 == entry.last) return progress;
  // The members of a chain are instructions that follow each other.
  const uint32_t next = entry.instruction + 1;
  worked.at.store(next, std::memory_order_relaxed);
  progress = run_members<Context>(entry, turn, tile, thread, entry.first + 1, entry.last);
  if (records && progress == Progress::done)
    recorder_.add(thread, StepEvent::Kind::kernel, next, turn, read);
  enter(thread, entry);
  return progress;
}

}  // namespace leat
