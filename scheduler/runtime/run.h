// A run: one program being stepped.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "devices/cpu/pool.h"
#include "scheduler/runtime/commit_verdict.h"
#include "scheduler/runtime/device_transfers.h"
#include "scheduler/runtime/entry_cursor.h"
#include "scheduler/runtime/program.h"
#include "scheduler/runtime/run_options.h"
#include "scheduler/runtime/run_outcome.h"
#include "scheduler/runtime/run_sight.h"
#include "scheduler/runtime/segment_execution.h"
#include "scheduler/runtime/step_limit.h"
#include "scheduler/runtime/step_recorder.h"
#include "scheduler/runtime/turn_contexts.h"

namespace leat {

// How far a call of Run::advance() came.
enum class Advanced : uint8_t {
  all,    // everything allowed is done, or the run failed
  waits,  // the run cannot go on before what `awaited` says
  stops,  // the run could go on: the caller did not want the work ahead, or other runs are ready
};

// The other runs of a run's device, as it sees them.
struct Neighbours {
  std::atomic<size_t> busy{0};   // runs that have steps to do, this one too
  std::atomic<size_t> ready{0};  // of the others, those that could go on now
};

// Sums over all that a run has done.
struct RunWork {
  // Rises with every tile that a kernel has done: a step that takes long shows that it goes on.
  uint64_t tiles = 0;
  // The time for which steps waited for rows of the data: the mean over the threads of the time for
  // which they could do nothing else. A thread that is alone reads the rows itself, and nothing
  // else meanwhile, so that all of its reading counts.
  std::chrono::nanoseconds input_wait{0};
  // How many steps ahead the rows of the data are asked for now: see ops/data/read_ahead.h.
  uint64_t steps_ahead = 0;
};

// A run never blocks: it goes on until its steps are done or it needs something that is not there
// yet, and says what. Its parts are one class each. The StepLimit says how far it may step, the
// EntryCursor where it stands and which segment of entries can start, the SegmentExecution runs
// that segment, the CommitVerdict decides whether a step's writes are made, and the RunOutcome
// counts finished turns and keeps the first failure.
//
// Steps are counted twice: as the job's step (for random numbers and for people) and as the run's
// turn (0 at its start, for slots). turn = step - first_step.
//
// A step of a program that commits is written as a whole or not at all, see CommitVerdict. A step
// that is decided is written before advance() returns, whatever became of the run. The caller that
// starts such a run says with RunOptions::first_step how many steps the variables have seen.
//
// Threads: one at a time calls advance(): the executor's driver, or a thread that completed what
// the run waited for. extend(), hold(), fence(), between_steps(), abort(), finished(), sight(),
// work(), recorder() from any.
class Run {
 public:
  // `program` and `pool` outlive the run. `pool` runs the tiles; runs that one driver advances may
  // share it.
  Run(Program& program, cpu::Pool& pool, RunOptions options);
  // Fails the run if values of it have yet to leave; waits for an asynchronous device.
  ~Run();

  // Allows the steps below `limit` (a job's step). It only rises, until hold() or fence().
  void extend(uint64_t limit);
  // Takes back the allowed steps that are not begun. Returns the limit that is left, which stays.
  uint64_t hold() { return limit_.hold(); }
  // Sets the limit for good, also where it was higher. REQUIRES: no step from there on can end; a
  // step that is begun stays as it is.
  void fence(uint64_t limit) { limit_.fence(limit); }
  uint64_t limit() const { return limit_.limit(); }
  // Calls `between` once, on the thread that advances, when the steps below `step` are done here
  // and before one of them counts as finished or the next one is begun. It replaces the callback
  // that was to be called before. failed_precondition if that step is begun.
  Status between_steps(uint64_t step, std::function<void()> between);
  // From the next turn on, kernels see the step number `step` and those after it: runs of one job
  // that step now and then share its numbers. REQUIRES: no allowed step is unfinished.
  void renumber(uint64_t step) { contexts_.renumber(turns(), step); }

  // Copies `value` to feed i. invalid_argument if its type is not the plan's.
  // REQUIRES: no allowed step is unfinished.
  Status set_feed(uint32_t i, const Tensor& value);
  // A copy of fetch i of `step`. REQUIRES: step is one of the last kFetchDepth finished ones.
  Tensor fetched(uint32_t i, uint64_t step);
  // The same fetch without a copy; it stays until kFetchDepth further steps are allowed.
  const void* fetched_data(uint32_t i, uint64_t step);

  // Goes on. True if everything allowed is done, or the run failed; false if it waits for
  // `awaited`.
  bool advance(Awaited& awaited) { return advance(awaited, nullptr, false) == Advanced::all; }
  // Goes on as one of several runs: it stops after a segment when others of `neighbours` are ready.
  // With `cheaply`, it runs cheap entries alone, on this thread alone.
  Advanced advance(Awaited& awaited, const Neighbours* neighbours, bool cheaply);
  // True if advancing cheaply can get anywhere.
  bool has_cheap_entries() const { return cursor_.has_cheap_entries(); }

  // At n when n turns are finished, and all that they sent has left; fails when the run fails.
  Timeline& finished() { return outcome_.finished(); }
  Status status() const { return outcome_.finished().status(); }
  // "train on job:worker/task:0/cpu:0 waits for the value of 'sum/bucket 3'"; "" if it waits for
  // nothing.
  std::string waits_for(const Awaited& awaited) const;

  // Its state now. `awaited` is what it waits for; null if a thread advances it, or is to. No other
  // thread changes `awaited` meanwhile.
  RunSight sight(const Awaited* awaited) const;
  // Records what its threads do.
  StepRecorder& recorder() { return recorder_; }

  // Ends the run: every wait on it ends with `cause`. The first cause stays.
  void abort(const Status& cause) { outcome_.abort(cause); }

  Program& program() { return program_; }
  const RunOptions& options() const { return options_; }
  // Turns finished.
  uint64_t turns() const { return outcome_.finished().value(); }
  // The sums up to now.
  RunWork work() const {
    return {execution_.tiles_done(), execution_.input_wait(),
            static_cast<uint64_t>(program_.steps_ahead())};
  }

 private:
  // A call of advance(), as its caller wants it.
  struct Visit {
    const Neighbours* neighbours;
    bool cheaply;
    uint64_t cheap_positions_end;
  };

  bool has_room_for(uint64_t turn) const;
  void move_to(uint64_t position);
  // Has the job remember the decided ones of so many turns, whose writes an asynchronous device has
  // made.
  void remember(uint64_t turns);
  Advanced wait(Awaited& awaited);
  std::optional<Advanced> run_entries(uint64_t allowed, const Visit& visit, Awaited& awaited);
  std::optional<Advanced> run_blocking(const Visit& visit, Awaited& awaited);

  Program& program_;
  const RunOptions options_;
  StepLimit limit_;
  CommitVerdict verdict_;
  RunOutcome outcome_;
  TurnContexts contexts_;
  StepRecorder recorder_;
  std::atomic<uint64_t> at_position_{0};      // the cursor's, for sight()
  uint64_t remembered_ = 0;                   // turns, by remember()
  std::optional<DeviceTransfers> transfers_;  // of a device with a memory of its own
  EntryCursor cursor_;
  SegmentExecution execution_;
};

}  // namespace leat
