// The turn that kernels run in, as they see it.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "ops/graph/kernel.h"
#include "scheduler/plan/plan.h"
#include "scheduler/runtime/run_options.h"
#include "scheduler/runtime/run_outcome.h"
#include "scheduler/runtime/step_limit.h"

namespace leat {

// The step that a kernel runs in: its number, and where the kernel reports a failure.
struct TurnContext final : LimitedStepContext {
  RunOutcome* outcome = nullptr;
  void fail(uint32_t instruction, Status status) override {
    outcome->fail(step, instruction, status);
  }
};

// One context for each of the last kFetchDepth turns, in a ring. number() fills a turn's context
// before any of its kernels run.
//
// Threads: renumber() from any, as it says; number() on the thread that advances the run; of() also
// on the threads that run the turn's kernels.
class TurnContexts {
 public:
  // All three outlive the contexts.
  TurnContexts(const RunOptions& options, const StepLimit& limit, RunOutcome& outcome)
      : options_(options), limit_(limit), first_number_(options.first_step) {
    for (TurnContext& context : contexts_) {
      context.outcome = &outcome;
      context.seed = options.seed;
    }
  }

  // From turn `turn` on, kernels see the step number `step` and those after it. REQUIRES: the turns
  // below `turn` are over, and none from there on is allowed; StepLimit::extend() publishes it.
  void renumber(uint64_t turn, uint64_t step) {
    first_number_.store(step - turn, std::memory_order_relaxed);
  }
  // Fills the turn's context. Kernels see the limit counted as their step is.
  void number(uint64_t turn) {
    const uint64_t first = first_number_.load(std::memory_order_relaxed);
    TurnContext& context = of(turn);
    context.step = first + turn;
    if (for_device_ && shared_[turn % kSlotDepth] != turn + 1) share(turn, context);
    context.limit = first + limit_.limit() - options_.first_step;
  }
  // Kernels find the numbers of their step at numbers[turn % kSlotDepth], too: pinned memory, which
  // outlives the contexts. REQUIRES: turn t is filled only when turn t - kSlotDepth is over.
  void share_with_device(StepNumbers* numbers) { for_device_ = numbers; }
  TurnContext& of(uint64_t turn) { return contexts_[turn % kFetchDepth]; }

 private:
  // Once for each turn: the device may read the numbers as soon as the first segment of it runs.
  void share(uint64_t turn, TurnContext& context) {
    shared_[turn % kSlotDepth] = turn + 1;
    for_device_[turn % kSlotDepth] = static_cast<const StepNumbers&>(context);
    context.for_device = &for_device_[turn % kSlotDepth];
  }

  const RunOptions& options_;
  const StepLimit& limit_;
  std::array<TurnContext, kFetchDepth> contexts_;
  std::atomic<uint64_t> first_number_;  // of turn 0
  StepNumbers* for_device_ = nullptr;
  std::array<uint64_t, kSlotDepth> shared_{};  // by parity: the turn that was shared last, plus one
};

}  // namespace leat
