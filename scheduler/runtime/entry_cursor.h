// The position of a run in its program, and how far the run can go from there.
#pragma once

#include <cstdint>
#include <vector>

#include "scheduler/runtime/commit_verdict.h"
#include "scheduler/runtime/program.h"
#include "scheduler/runtime/run_options.h"

namespace leat {

// The positions [begin, end) of a program, none of which waits for anything outside the run.
struct Segment {
  uint64_t begin = 0, end = 0;
  bool alone = false;  // the thread that advances runs it by itself, in order
};

// A cursor over the entries of all turns. Position p stands for entry p % n of turn p / n, where n
// is the number of entries of a turn.
//
// Threads: the one that advances the run.
class EntryCursor {
 public:
  // Both outlive the cursor.
  EntryCursor(Program& program, const CommitVerdict& verdict);

  // True if the program does nothing; then the queries about entries and turns have no answer.
  bool empty() const { return entries_.empty(); }
  uint64_t position() const { return position_; }
  uint64_t turn() const { return position_ / entries_.size(); }
  const Entry& entry() const { return entries_[position_ % entries_.size()]; }
  void move_to(uint64_t position) { position_ = position; }
  // The first position of the turn.
  uint64_t begin_of(uint64_t turn) const { return turn * entries_.size(); }
  // The number of turns that are begun when the cursor stands at `position`.
  uint64_t turns_begun(uint64_t position) const {
    return empty() ? 0 : (position + entries_.size() - 1) / entries_.size();
  }
  // True if the program has entries that cost less than waking another thread.
  bool has_cheap_entries() const { return has_cheap_entries_; }

  // The first position from here on, at most `cap`, that cannot start yet; if that is here,
  // `awaited` is what it waits for.
  uint64_t startable(uint64_t cap, Awaited& awaited);
  // The segment from here that ends at `end` or, to stay with cheap entries or to keep a step's
  // writes in one piece, elsewhere. `cheaply`: it has cheap entries alone.
  // REQUIRES: the positions from here to `end` can start.
  Segment cut(uint64_t end, bool cheaply) const;

  // Of the turns below `turn`, all of which are issued, the number of those whose values have all
  // left; if it is lower, `awaited` is the first value to wait for.
  uint64_t turns_sent(uint64_t turn, Awaited& awaited) const;

 private:
  bool ready(uint64_t position, Awaited& awaited);
  uint64_t cheap_end(uint64_t end) const;

  Program& program_;
  const CommitVerdict& verdict_;
  const std::vector<Entry>& entries_;
  std::vector<uint32_t> next_special_;  // from each entry on, the first that may have to wait
  std::vector<uint32_t> next_heavy_;    // from each entry on, the first that is not cheap
  bool has_cheap_entries_ = false;
  uint64_t position_ = 0;
};

}  // namespace leat
