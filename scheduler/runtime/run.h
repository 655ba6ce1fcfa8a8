// A run: one program being stepped. A resumable cursor over its entries that never blocks: it goes
// on until its steps are done or it needs something that is not there yet, and then says what.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "devices/cpu/pool.h"
#include "ops/graph/kernel.h"
#include "scheduler/runtime/program.h"

namespace leat {

// What a cursor waits for.
struct Awaited {
  Timeline* timeline = nullptr;
  uint64_t value = 0;
  uint32_t instruction = 0;  // who waits
};

// How far a cursor came.
enum class Advanced : uint8_t {
  all,    // everything allowed is done, or the run failed
  waits,  // for what it says in an Awaited
  stops,  // it could go on: before work that its caller did not want, or for others of the device
};

// The other runs of a device.
struct Neighbours {
  std::atomic<size_t> busy{0};   // runs that have steps to do, this one too
  std::atomic<size_t> ready{0};  // of the others, those that could go on now
};

struct RunOptions {
  std::string name = "run";
  uint64_t seed = 0;
  uint64_t first_step = 0;  // the job's step of the run's first turn
  bool profile = false;     // the run's program times its kernels: see profile_text()
  // Other runs decide when it steps: it is allowed all steps, and nobody waits for their end.
  bool endless = false;
  bool trains = false;  // its steps are those that the job counts
};

// Steps are counted twice: the job's step (for random numbers, for people) and the run's turn (0 at
// its start, for slots). turn = step - first_step.
//
// A program that commits writes a step's variables after one entry, at which nothing of the step
// can fail any more. There abort() and the step decide which of them came first: a step that did is
// written to its end before advance() returns, whatever became of the run; of one that did not
// nothing is written. The job's Commits remember it. Who starts such a run says with
// RunOptions::first_step how many steps the variables have seen. Other programs that write
// variables leave them of no step in particular.
//
// Threads: one at a time calls advance(), the executor's driver or who completed what the run
// waited for; extend(), fail() and the timelines from anywhere.
class Run {
 public:
  // `pool` runs the tiles; it may be shared by runs that one driver advances.
  Run(Program& program, cpu::Pool& pool, RunOptions options);
  ~Run();

  // Allows the steps below `limit` (a job's step). It only rises, until hold() or fence().
  void extend(uint64_t limit);
  // Takes back what is allowed beyond the steps that are begun; the limit that is left, and stays.
  uint64_t hold();
  // The limit is this from now on, also where it was higher. REQUIRES: no step from there on can
  // end; one that is begun stays as it is.
  void fence(uint64_t limit);
  uint64_t limit() const { return limit_.load(std::memory_order_acquire); }
  // Calls `between` once, on the thread that advances: when the steps below `step` are done here,
  // and before one of them counts as finished or the next is begun. In place of what was to be
  // called before. failed_precondition if that step is begun.
  Status between_steps(uint64_t step, std::function<void()> between);
  // From the next turn on, kernels see the step number `step` and what follows it: runs of one job
  // that step now and then share its numbers. REQUIRES: no allowed step is unfinished.
  void renumber(uint64_t step);
  // Copies `value` to feed i; REQUIRES: no allowed step is unfinished, the type is the plan's.
  Status set_feed(uint32_t i, const Tensor& value);
  // A copy of fetch i of `step`; REQUIRES: step is one of the last kFetchDepth finished ones.
  Tensor fetched(uint32_t i, uint64_t step);
  // Scalar fetches without a copy.
  const void* fetched_data(uint32_t i, uint64_t step);

  // Goes on. True if everything allowed is done (or the run failed); false if it waits: then
  // `awaited`.
  bool advance(Awaited& awaited) { return advance(awaited, nullptr, false) == Advanced::all; }
  // The same, as one of several: it stops when others of `neighbours` are ready, though no entry is
  // cut short for them. With `cheaply` no further than cheap entries go, on this thread alone.
  Advanced advance(Awaited& awaited, const Neighbours* neighbours, bool cheaply);
  // Are there entries for which that makes sense?
  bool has_cheap_entries() const { return has_cheap_entries_; }
  // Is this thread at work for a run, whichever? Then it has no time for another one.
  static bool on_this_thread();

  // At n when n turns are finished, and all that they sent has left; fails when the run fails.
  Timeline& finished() { return finished_; }
  Status status() const { return finished_.status(); }
  // "conv2 waits for edge 'x' from job:worker/task:1/cpu:0", or "".
  std::string waits_for(const Awaited& awaited) const;
  // Is that a value from another partition, or room at one?
  bool waits_for_peer(const Awaited& awaited) const;

  // Ends the run: every wait on it ends with `cause`. The first cause stays.
  void abort(const Status& cause);

  Program& program() { return program_; }
  const RunOptions& options() const { return options_; }
  // Turns finished.
  uint64_t turns() const { return finished_.value(); }
  // Rises with every tile of a kernel that is done, or begun: a step that takes long shows that it
  // goes on.
  uint64_t tiles_done() const;

 private:
  struct Segment;
  // Of one thread, which alone writes it.
  struct alignas(64) Worked {
    std::atomic<uint64_t> tiles{0};
    void add() {
      tiles.store(tiles.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    }
  };
  // What the kernels of one turn see.
  struct Turn final : LimitedStepContext {
    Run* run = nullptr;
    void fail(uint32_t instruction, Status status) override;
  };

  bool ready(uint64_t position, Awaited& awaited);
  uint64_t turns_sent(uint64_t turn, Awaited& awaited) const;
  bool gives_up(const Awaited& awaited);
  uint64_t cheap_end(uint64_t end) const;
  bool drained(Awaited& awaited, uint64_t position);
  uint64_t segment_end(uint64_t cap, Awaited& awaited);
  void run_segment(uint64_t begin, uint64_t end, bool alone);
  uint64_t keep_commit_whole(uint64_t end, bool& alone) const;
  void run_serial(uint64_t begin, uint64_t end);
  static void work(void* segment, int thread);
  void number(uint64_t turn);
  bool wait_for_others(const Entry& entry, uint64_t turn);
  void write_tile(uint64_t e, uint64_t turn, uint32_t tile, std::byte* scratch);
  bool is_committing(uint64_t e) const { return e > commit_ && e < commit_end_; }
  bool claim(uint64_t turns);
  void call_between();
  bool decide(uint64_t turn);
  bool decided(uint64_t turn) const { return verdict_.load(std::memory_order_acquire) >> 1 > turn; }
  bool await_verdict(uint64_t turn) const;
  void commit();
  bool enter_turn(uint64_t turn);
  Turn& turn_state(uint64_t turn) { return turns_[turn % kFetchDepth]; }
  bool wait_for_entry(uint32_t e, uint64_t turns);
  bool run_kernel(const Entry& entry, uint64_t turn);
  bool run_tile(const Entry& entry, uint64_t turn, uint32_t tile, std::byte* scratch);
  Progress run_in_tile_memory(const BoundKernel& bound, KernelContext context, int phase,
                              uint32_t tile) const;
  bool run_transfer(const Entry& entry, uint64_t turn);
  void hold(const Entry& entry);
  bool flush_held(uint32_t instruction, uint64_t turn);
  bool run_bundle(const Entry& bundle, uint64_t turn, std::byte* scratch);
  bool run_blocking(const Entry& entry, uint64_t turn, Awaited& awaited);
  void finish_turns(uint64_t from, uint64_t to);

  Program& program_;
  cpu::Pool& pool_;
  RunOptions options_;
  const std::vector<Entry>& entries_;
  std::array<Turn, kFetchDepth> turns_;                  // set by the driver before a segment
  std::unique_ptr<std::atomic<uint64_t>[]> tiles_done_;  // by entry, over all turns
  std::unique_ptr<Worked[]> worked_;                     // by thread
  std::vector<std::vector<std::byte>> scratch_storage_;
  std::vector<std::byte*> scratch_;    // by thread
  std::vector<uint64_t> tile_prefix_;  // tiles before each entry of a turn; the last is all of them
  std::vector<uint32_t>
      next_special_;                  // from each entry on, the first that the outside may hold up
  std::vector<uint32_t> next_heavy_;  // from each entry on, the first that is not cheap
  bool has_cheap_entries_ = false;
  uint64_t position_ = 0;  // turn * entries + entry
  uint64_t turns_finished_ = 0;
  const uint64_t commit_, commit_end_;  // as Program says; no position if there is none
  // What is written is known: an asynchronous device may fail after it was told.
  const bool remembers_;
  // Twice the turns that are decided, and 1 when the run has failed: none is decided from then on.
  std::atomic<uint64_t> verdict_{0};
  std::atomic<bool> spoiled_{false};    // a write failed
  std::atomic<bool> announced_{false};  // to the Commits
  uint64_t committed_ = 0;              // turns
  std::vector<Channel*> held_;          // by the thread that advances
  uint32_t blocking_tile_ = 0;
  uint64_t marked_position_ = ~uint64_t{0},
           mark_ = 0;    // asynchronous devices: the queue's mark at a position
  std::mutex limiting_;  // whoever changes the limit
  std::atomic<uint64_t> limit_;
  uint64_t ceiling_ = ~uint64_t{0};            // of the limit
  std::atomic<uint64_t> claimed_{0};           // turns that are begun, or about to be
  std::atomic<uint64_t> pause_{~uint64_t{0}};  // turns before between_
  std::function<void()> between_;
  std::atomic<uint64_t> first_number_;  // what kernels see is this + turn
  std::atomic<bool> failed_{false};
  Timeline finished_;
};

}  // namespace leat
