#include "scheduler/runtime/commit_verdict.h"

#include <sched.h>

namespace leat {

// Without a Commit, `first_` is above all entries, so covers() is false for each of them.
CommitVerdict::CommitVerdict(Program& program)
    : program_(program),
      first_(program.commit() == kNone ? ~uint64_t{0} : program.commit()),
      end_(program.commit() == kNone ? 0 : program.commit_end()),
      remembers_(program.commit() != kNone) {}

void CommitVerdict::announce(uint64_t first_step) {
  if (!program_.writes_variables() || announced_.exchange(true, std::memory_order_acq_rel)) return;
  if (remembers_)
    program_.commits().declare(first_step);
  else
    program_.commits().taint();
}

// The failed bit and the count are one word, so that a failure and a decision have an order.
bool CommitVerdict::decide(uint64_t turn) {
  uint64_t verdict = verdict_.load(std::memory_order_acquire);
  // A failed exchange reads the word again: either the run has failed meanwhile, or another thread
  // has changed the count.
  while ((verdict & 1) == 0) {
    if (verdict_.compare_exchange_weak(verdict, 2 * (turn + 1), std::memory_order_acq_rel))
      return true;
  }
  return false;
}

bool CommitVerdict::await(uint64_t turn) const {
  while (true) {
    const uint64_t verdict = verdict_.load(std::memory_order_acquire);
    if (verdict >> 1 > turn) return true;
    // The decision is a moment away, because its entry was claimed before. So the thread does not
    // park.
    if ((verdict & 1) != 0) return false;
    sched_yield();
  }
}

// Every decided turn is written when its segment ends, so the last one stands for all.
uint64_t CommitVerdict::take_decided() {
  const uint64_t turns = decided();
  if (turns == taken_) return 0;
  return taken_ = turns;
}

uint64_t CommitVerdict::decided() const {
  return remembers_ ? verdict_.load(std::memory_order_acquire) >> 1 : 0;
}

// If a write failed, taint() takes the commit back.
void CommitVerdict::remember(uint64_t step) {
  program_.commits().commit(step);
  if (spoiled_.load(std::memory_order_acquire)) program_.commits().taint();
}

}  // namespace leat
