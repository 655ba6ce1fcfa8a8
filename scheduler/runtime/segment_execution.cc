#include "scheduler/runtime/segment_execution.h"

#include <sched.h>

#include <algorithm>

#include "scheduler/runtime/at_work.h"

namespace leat {

namespace {

// Adds the time of its life.
class WaitTime {
 public:
  explicit WaitTime(std::atomic<int64_t>& sum) : sum_(sum) {}
  ~WaitTime() {
    const auto passed = std::chrono::steady_clock::now() - begun_;
    sum_.fetch_add(std::chrono::duration_cast<std::chrono::nanoseconds>(passed).count(),
                   std::memory_order_relaxed);
  }

 private:
  std::atomic<int64_t>& sum_;
  const std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
};

}  // namespace

// A segment that the threads of the pool run together.
struct SegmentExecution::Shared {
  SegmentExecution* execution;
  uint64_t begin;                 // its first position
  uint64_t tiles;                 // in all
  std::atomic<uint64_t> next{0};  // the first tile that no thread has claimed
};

SegmentExecution::SegmentExecution(Program& program, cpu::Pool& pool, TurnContexts& contexts,
                                   CommitVerdict& verdict, RunOutcome& outcome,
                                   StepRecorder& recorder, DeviceTransfers* transfers)
    : transfers_(transfers),
      pool_(pool),
      entries_(program.entries()),
      program_(program),
      contexts_(contexts),
      verdict_(verdict),
      outcome_(outcome),
      tiles_(program, contexts, recorder, pool.threads()),
      done_(new std::atomic<uint64_t>[program.entries().size()]),
      recorder_(recorder) {
  if (transfers_) rows_.emplace(program, verdict, contexts, *transfers_);
  // The tiles are numbered through the entries of a turn, so a claimed number can be turned into an
  // entry and a tile.
  uint64_t tiles = 0;
  for (size_t e = 0; e < entries_.size(); ++e) {
    done_[e].store(0, std::memory_order_relaxed);
    tile_prefix_.push_back(tiles);
    tiles += entries_[e].tiles;
  }
  tile_prefix_.push_back(tiles);
  // The list never grows beyond the channels, so no step allocates.
  held_.reserve(program.exchange().channels.size());
}

void SegmentExecution::run(const Segment& segment) {
  const uint64_t n = entries_.size();
  // The contexts are filled before any thread joins, and stay as they are until the segment is
  // done.
  for (uint64_t turn = segment.begin / n; turn * n < segment.end; ++turn) contexts_.number(turn);
  // One queue of an asynchronous device takes work from one thread at a time.
  if (segment.alone || !shares()) {
    run_in_order(segment);
    return;
  }
  Shared shared{this, segment.begin, tiles_before(segment.end) - tiles_before(segment.begin), {}};
  pool_.run(&SegmentExecution::join, &shared);
}

// The tiles of all turns before a position.
uint64_t SegmentExecution::tiles_before(uint64_t position) const {
  const uint64_t n = entries_.size();
  return position / n * tile_prefix_.back() + tile_prefix_[position % n];
}

void SegmentExecution::run_in_order(const Segment& segment) {
  const uint64_t n = entries_.size();
  uint64_t turn = segment.begin / n;
  bool ok = true;
  bool records = recorder_.wants(turn);  // asked once a turn: an entry may cost a few nanoseconds
  for (uint64_t position = segment.begin; position < segment.end; ++position) {
    if (position == (turn + 1) * n) records = recorder_.wants(++turn);
    const Entry& entry = entries_[position - turn * n];
    // After a failure only the writes of decided steps are left. A write that fails spoils the
    // verdict, and the other writes are still made.
    const bool writes = verdict_.covers(position - turn * n) && verdict_.decided(turn);
    if (!ok && !writes) continue;
    if (const uint64_t end =
            rows_ && (ok || writes) ? enqueue_row(position, segment.end) : position;
        end > position) {
      position = end - 1;
      continue;
    }
    // Values that are sent before work that takes a while travel together.
    if (!held_.empty() && !entry.cheap) ok = flush_held(entry.instruction, turn) && ok;
    if (writes) {
      if (records ? measure_whole(entry, turn, true) : run_whole(entry, turn)) continue;
      verdict_.spoil();
      ok = false;
    } else if (entry.kind == Entry::Kind::kernel) {
      ok = ok && (records || entry.reads_rows ? measure_whole(entry, turn, records)
                                              : run_whole(entry, turn));
      ok = ok && (!entry.commits || verdict_.decide(turn));
    } else if (transfers_) {
      if (ok) transfers_->issue(entry, turn);
    } else {
      hold(entry);
      ok = ok && tiles_.run(entry, turn, 0, 0);
    }
  }
  if (!held_.empty()) ok = flush_held(entries_[segment.begin % n].instruction, turn) && ok;
  tiles_.rest(0);
  if (ok && shares()) count_done(segment);
}

// Segments that several threads run wait for these counts. No other thread runs anything now, so
// that each count is written without a locked instruction.
void SegmentExecution::count_done(const Segment& segment) {
  const uint64_t n = entries_.size();
  uint64_t e = segment.begin % n;
  for (uint64_t position = segment.begin; position < segment.end; ++position) {
    std::atomic<uint64_t>& done = done_[e];
    done.store(done.load(std::memory_order_relaxed) + entries_[e].tiles, std::memory_order_release);
    if (++e == n) e = 0;
  }
}

// Enqueues the row of entries that begins at the position and ends within the segment. Returns the
// position behind it; the same position if there is none or it is to be issued entry by entry.
uint64_t SegmentExecution::enqueue_row(uint64_t position, uint64_t end) {
  const uint64_t n = entries_.size(), turn = position / n, first = position % n;
  const uint64_t last = rows_->end_of(first);
  if (last == first || turn * n + last > end || !rows_->enqueue(first, turn)) return position;
  tiles_.count(last - first);
  return turn * n + last;
}

// All tiles of a kernel's entry.
bool SegmentExecution::run_whole(const Entry& entry, uint64_t turn) {
  tiles_.enter(0, entry);
  for (uint32_t tile = entry.first_tile; tile < entry.first_tile + entry.tiles; ++tile) {
    if (tiles_.run_exclusively(entry, turn, tile) != Progress::done) return false;
  }
  return true;
}

// The same where the time matters: the turn `records`, or the entry reads rows of the data.
bool SegmentExecution::measure_whole(const Entry& entry, uint64_t turn, bool records) {
  if (entry.reads_rows) {
    tiles_.enter(0, entry);
    int64_t reading = 0;
    bool ok = true;
    for (uint32_t tile = entry.first_tile; ok && tile < entry.first_tile + entry.tiles; ++tile)
      ok = tiles_.read_exclusively(entry, turn, tile, records, reading) == Progress::done;
    input_wait_.fetch_add(reading, std::memory_order_relaxed);
    return ok;
  }
  const int64_t begin = StepRecorder::now();
  if (!run_whole(entry, turn)) return false;
  recorder_.add(0, StepEvent::Kind::kernel, entry.instruction, turn, begin, StepRecorder::now(),
                entry.tiles);
  return true;
}

void SegmentExecution::hold(const Entry& entry) {
  const auto hold_one = [&](Channel* channel) {
    if (!channel || std::find(held_.begin(), held_.end(), channel) != held_.end()) return;
    channel->hold();
    held_.push_back(channel);
  };
  hold_one(entry.channel);
  for (Channel* channel : entry.channels) hold_one(channel);
}

bool SegmentExecution::flush_held(uint32_t instruction, uint64_t turn) {
  Status first;
  tiles_.rest(0);
  const int64_t begin = recorder_.wants(turn) ? StepRecorder::now() : 0;
  for (Channel* channel : held_) {
    const Status flushed = channel->flush();
    if (first.ok()) first = flushed;
  }
  held_.clear();
  if (begin != 0) recorder_.add(0, StepEvent::Kind::flush, instruction, turn, begin);
  if (first.ok()) return true;
  contexts_.of(turn).fail(instruction, first);
  return false;
}

bool SegmentExecution::run_blocking(uint64_t position, Awaited& awaited) {
  const uint64_t n = entries_.size(), turn = position / n;
  const Entry& entry = entries_[position % n];
  contexts_.number(turn);
  tiles_.enter(0, entry);
  const bool records = recorder_.wants(turn);
  for (; blocking_tile_ < entry.tiles; ++blocking_tile_) {
    // The kernel says in its context what it waits for. The tiles before this one are done and are
    // not run again.
    const int64_t begin = records ? StepRecorder::now() : 0;
    const Progress progress = tiles_.run_exclusively(entry, turn, blocking_tile_);
    if (progress == Progress::blocked) {
      const KernelContext& context = program_.kernel(entry.first).context[turn % kSlotDepth];
      awaited = {context.await, context.await_value, entry.instruction, {}};
    }
    if (progress != Progress::done) {
      tiles_.rest(0);
      return false;
    }
    if (records) recorder_.add(0, StepEvent::Kind::kernel, entry.instruction, turn, begin);
  }
  tiles_.rest(0);
  blocking_tile_ = 0;
  done_[position % n].fetch_add(entry.tiles, std::memory_order_release);
  return true;
}

void SegmentExecution::join(void* shared, int thread) {
  const AtWork here;
  auto& segment = *static_cast<Shared*>(shared);
  segment.execution->share(segment, static_cast<size_t>(thread));
  segment.execution->tiles_.rest(static_cast<size_t>(thread));
}

// The share of one thread: it claims tiles of the segment until none is left.
void SegmentExecution::share(Shared& shared, size_t thread) {
  const uint64_t n = entries_.size(), offset = tiles_before(shared.begin);
  uint64_t position = shared.begin;
  uint64_t turn = position / n;
  uint64_t position_first = offset;  // the number of the first tile of `position`
  bool new_turn = true;
  while (true) {
    const uint64_t claimed = shared.next.fetch_add(1, std::memory_order_relaxed);
    if (claimed >= shared.tiles) return;
    const uint64_t number = offset + claimed;
    // The numbers that one thread claims only rise, so it walks through the entries once.
    while (number >= position_first + entries_[position - turn * n].tiles) {
      position_first += entries_[position - turn * n].tiles;
      if (++position == (turn + 1) * n) {
        ++turn;
        new_turn = true;
      }
    }
    const uint64_t e = position - turn * n;
    const Entry& entry = entries_[e];
    const auto tile = static_cast<uint32_t>(number - position_first);
    if (verdict_.covers(e)) {
      write_tile(e, turn, tile, thread);
      continue;
    }
    // Once the run has failed, only writes of steps that were decided are left to be made.
    if (new_turn && !enter_turn(turn, thread)) continue;
    new_turn = false;
    if (!wait_for_others(entry, turn, thread) || !tiles_.run(entry, turn, tile, thread)) continue;
    if (entry.commits && !verdict_.decide(turn)) continue;
    done_[e].fetch_add(1, std::memory_order_release);
  }
}

// Turns of one parity share contexts and slots: a turn starts when the one kSlotDepth before it is
// over. False if the run fails meanwhile.
bool SegmentExecution::enter_turn(uint64_t turn, size_t thread) {
  if (turn + 1 <= kSlotDepth) return true;
  for (uint32_t e = 0; e < entries_.size(); ++e) {
    if (!wait_for_entry(e, turn + 1 - kSlotDepth, thread)) return false;
  }
  return true;
}

// Spins until the entries that this one follows are done; false if the run fails meanwhile.
bool SegmentExecution::wait_for_others(const Entry& entry, uint64_t turn, size_t thread) {
  if (outcome_.failed()) return false;
  for (uint32_t before : entry.after) {
    if (!wait_for_entry(before, turn + 1, thread)) return false;
  }
  for (uint32_t before : entry.after_previous) {
    if (!wait_for_entry(before, turn, thread)) return false;
  }
  return true;
}

// Spins until all tiles of entry e of `turns` turns are done; false if the run fails meanwhile.
bool SegmentExecution::wait_for_entry(uint32_t e, uint64_t turns, size_t thread) {
  const uint64_t wanted = turns * entries_[e].tiles;
  if (done_[e].load(std::memory_order_acquire) >= wanted) return true;
  tiles_.rest(thread);
  if (!entries_[e].reads_rows) return spin(e, wanted);
  const WaitTime watch(input_wait_);
  return spin(e, wanted);
}

bool SegmentExecution::spin(uint32_t e, uint64_t wanted) const {
  while (done_[e].load(std::memory_order_acquire) < wanted) {
    if (outcome_.failed()) return false;
    sched_yield();
  }
  return true;
}

// A tile of a step's writes. Once the step is decided, every entry before the deciding one is done,
// in this step and in those before, and every write behind it will be made: the waits here end even
// if the run fails.
void SegmentExecution::write_tile(uint64_t e, uint64_t turn, uint32_t tile, size_t thread) {
  tiles_.rest(thread);
  if (!verdict_.await(turn)) return;
  const Entry& entry = entries_[e];
  for (uint32_t before : entry.after) {
    const uint64_t wanted = (turn + 1) * entries_[before].tiles;
    while (done_[before].load(std::memory_order_acquire) < wanted) sched_yield();
  }
  if (!tiles_.run(entry, turn, tile, thread)) verdict_.spoil();
  done_[e].fetch_add(1, std::memory_order_release);
}

}  // namespace leat
