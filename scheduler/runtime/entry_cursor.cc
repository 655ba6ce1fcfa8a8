#include "scheduler/runtime/entry_cursor.h"

#include <algorithm>

namespace leat {
namespace {

constexpr uint64_t kMostAlone = 64;  // more cheap entries are worth sharing with the pool

}  // namespace

EntryCursor::EntryCursor(Program& program, const CommitVerdict& verdict)
    : program_(program), verdict_(verdict), entries_(program.entries()) {
  // Both lists are filled from the back, so that each look forward takes one step.
  next_special_.assign(entries_.size() + 1, static_cast<uint32_t>(entries_.size()));
  next_heavy_ = next_special_;
  for (size_t e = entries_.size(); e-- > 0;) {
    const Entry& entry = entries_[e];
    const bool special = entry.may_block || !entry.awaits.empty();
    next_special_[e] = special ? static_cast<uint32_t>(e) : next_special_[e + 1];
    next_heavy_[e] = entry.cheap ? next_heavy_[e + 1] : static_cast<uint32_t>(e);
    has_cheap_entries_ = has_cheap_entries_ || entry.cheap;
  }
}

uint64_t EntryCursor::startable(uint64_t cap, Awaited& awaited) {
  const uint64_t n = entries_.size();
  uint64_t end = position_;
  while (end < cap) {
    const uint64_t turn_begin = end / n * n;
    end = turn_begin + next_special_[end - turn_begin];  // n if the turn has nothing special left
    if (end >= cap) return cap;
    if (end == turn_begin + n) continue;
    if (entries_[end - turn_begin].may_block || !ready(end, awaited)) return end;
    ++end;
  }
  return cap;
}

// True if the entry may start, as far as other runs go.
bool EntryCursor::ready(uint64_t position, Awaited& awaited) {
  const uint64_t turn = position / entries_.size();
  const Entry& entry = entries_[position % entries_.size()];
  for (const Await& await : entry.awaits) {
    // In the first `lag` turns there is nothing to wait for: all slots are free.
    if (turn + 1 <= await.lag || await.timeline->reached(turn + 1 - await.lag)) continue;
    awaited = {await.timeline, turn + 1 - await.lag, await.instruction, {}};
    return false;
  }
  return true;
}

uint64_t EntryCursor::turns_sent(uint64_t turn, Awaited& awaited) const {
  for (const EntryList::Sent& sent : program_.sent()) {
    if (sent.timeline->reached(turn)) continue;
    awaited = {sent.timeline, turn, sent.instruction, {}};
    turn = sent.timeline->value();
  }
  return turn;
}

// The first entry from here on, at most `end`, that is not cheap.
uint64_t EntryCursor::cheap_end(uint64_t end) const {
  const uint64_t n = entries_.size();
  for (uint64_t turn_begin = position_ / n * n; turn_begin < end; turn_begin += n) {
    const uint64_t from = std::max(position_, turn_begin);
    const uint64_t heavy = turn_begin + next_heavy_[from - turn_begin];
    if (heavy < turn_begin + n) return std::min(heavy, end);
  }
  return end;
}

Segment EntryCursor::cut(uint64_t end, bool cheaply) const {
  const uint64_t cheap = cheap_end(end);
  // A few cheap entries are done before another thread would be awake.
  bool alone = cheaply || (cheap > position_ && cheap - position_ <= kMostAlone);
  if (alone) end = cheap;
  // A segment ends before a step is decided, or when all of its writes are made.
  // `end` may be inside the writes of a step. If the deciding entry still lies ahead, the segment
  // stops before it; else it takes all the writes along.
  const uint64_t turn_begin = (end - 1) / entries_.size() * entries_.size();
  if (verdict_.covers(end - turn_begin)) {
    const uint64_t deciding = verdict_.deciding_entry();
    if (turn_begin + deciding > position_) {
      end = turn_begin + deciding;
    } else {
      alone = alone && entries_[deciding].cheap;
      end = turn_begin + verdict_.end();
    }
  }
  return {position_, end, alone};
}

}  // namespace leat
