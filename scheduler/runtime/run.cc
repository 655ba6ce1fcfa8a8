#include "scheduler/runtime/run.h"

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "devices/base/text.h"

namespace leat {
namespace {

constexpr uint64_t kTurnsPerSegment = kFetchDepth / 2;
// Of a run that is not alone: so long others wait at most.
constexpr uint64_t kEntriesBesideOthers = 4;
constexpr uint64_t kMostCheap = 1024;  // entries that one call runs cheaply
constexpr uint64_t kMostAlone = 64;    // more are worth sharing with the pool
constexpr auto kDrainDeadline = std::chrono::seconds(60);

thread_local bool at_work = false;

// Notes that this thread works for a run, as long as this lives.
class AtWork {
 public:
  AtWork() : before_(std::exchange(at_work, true)) {}
  ~AtWork() { at_work = before_; }

 private:
  const bool before_;
};

}  // namespace

// Positions [begin, end) that nothing outside holds up, run by all threads of the pool. Tiles are
// numbered in order of position and claimed with one counter; a claimed tile spins until the
// entries that it follows have finished. They were all claimed before it, so somebody is running
// them.
struct Run::Segment {
  Run* run;
  uint64_t begin, end;
  uint64_t tiles;  // in all
  std::atomic<uint64_t> next{0};
};

Run::Run(Program& program, cpu::Pool& pool, RunOptions options)
    : program_(program),
      pool_(pool),
      options_(std::move(options)),
      entries_(program.entries()),
      tiles_done_(new std::atomic<uint64_t>[program.entries().size()]),
      commit_(program.commit() == kNone ? ~uint64_t{0} : program.commit()),
      commit_end_(program.commit() == kNone ? 0 : program.commit_end()),
      remembers_(program.commit() != kNone && program.device().host_visible()),
      limit_(options_.first_step),
      first_number_(options_.first_step) {
  for (size_t e = 0; e < entries_.size(); ++e) tiles_done_[e].store(0, std::memory_order_relaxed);
  uint64_t tiles = 0;
  for (const Entry& entry : entries_) {
    tile_prefix_.push_back(tiles);
    tiles += entry.tiles;
  }
  tile_prefix_.push_back(tiles);
  next_special_.assign(entries_.size() + 1, static_cast<uint32_t>(entries_.size()));
  next_heavy_ = next_special_;
  const bool host = program.device().host_visible();
  for (size_t e = entries_.size(); e-- > 0;) {
    const Entry& entry = entries_[e];
    const bool special =
        entry.may_block || !entry.awaits.empty() || (!host && entry.kind != Entry::Kind::kernel);
    next_special_[e] = special ? static_cast<uint32_t>(e) : next_special_[e + 1];
    next_heavy_[e] = entry.cheap ? next_heavy_[e + 1] : static_cast<uint32_t>(e);
    has_cheap_entries_ = has_cheap_entries_ || entry.cheap;
  }
  const int threads = pool.threads();
  worked_.reset(new Worked[static_cast<size_t>(threads)]);
  for (int t = 0; t < threads; ++t) {
    scratch_storage_.emplace_back(program.scratch_bytes() + 64);
    auto* raw = scratch_storage_.back().data();
    scratch_.push_back(raw + (64 - reinterpret_cast<uintptr_t>(raw) % 64) % 64);
  }
  held_.reserve(program.exchange().channels.size());
  for (Turn& turn : turns_) {
    turn.run = this;
    turn.seed = options_.seed;
  }
  for (uint32_t k = 0; k < program_.kernels(); ++k) {
    for (KernelContext& context : program_.kernel(k).context) context.scratch = scratch_[0];
  }
}

Run::~Run() {
  // What is on its way out may still be read.
  Awaited awaited;
  const uint64_t issued =
      entries_.empty() ? 0 : (position_ + entries_.size() - 1) / entries_.size();
  if (turns_sent(issued, awaited) < issued) abort(cancelled("the run was ended"));
  // An asynchronous device may still run kernels of ours.
  if (program_.device().host_visible()) return;
  Queue& queue = program_.device().queue();
  const Status drained =
      queue.timeline().wait(queue.mark(), std::chrono::steady_clock::now() + kDrainDeadline);
  (void)drained;  // past the deadline there is nothing left to do
}

void Run::extend(uint64_t limit) {
  if (program_.writes_variables() && !announced_.exchange(true, std::memory_order_acq_rel)) {
    if (remembers_)
      program_.commits().declare(options_.first_step);
    else
      program_.commits().taint();
  }
  const std::lock_guard lock(limiting_);
  limit = std::min(limit, ceiling_);
  if (limit > limit_.load(std::memory_order_relaxed))
    limit_.store(limit, std::memory_order_release);
}

// Who steps says first how far, and looks at the limit then; who lowers the limit looks then how
// far others are: one of them sees the other.
bool Run::claim(uint64_t turns) {
  if (turns <= claimed_.load(std::memory_order_relaxed)) return true;
  claimed_.store(turns, std::memory_order_seq_cst);
  return turns <= std::min(limit_.load(std::memory_order_seq_cst) - options_.first_step,
                           pause_.load(std::memory_order_seq_cst));
}

Status Run::between_steps(uint64_t step, std::function<void()> between) {
  if (entries_.empty()) {  // it does nothing that would come before
    between();
    return {};
  }
  const std::lock_guard lock(limiting_);
  const uint64_t turns = step - options_.first_step;
  between_ = std::move(between);
  pause_.store(turns, std::memory_order_seq_cst);
  const uint64_t claimed = claimed_.load(std::memory_order_seq_cst);
  if (step >= options_.first_step && claimed <= turns) return {};
  pause_.store(~uint64_t{0}, std::memory_order_seq_cst);
  between_ = nullptr;
  return failed_precondition(cat(options_.name, ": expected step ", step, " not to be begun, ",
                                 options_.first_step + claimed, " are"));
}

void Run::call_between() {
  std::function<void()> between;
  {
    const std::lock_guard lock(limiting_);
    between.swap(between_);
    pause_.store(~uint64_t{0}, std::memory_order_seq_cst);
  }
  if (between) between();
}

uint64_t Run::hold() {
  const std::lock_guard lock(limiting_);
  const uint64_t most = limit_.load(std::memory_order_relaxed);
  uint64_t limit = options_.first_step;
  for (bool sure = false; !sure;) {
    limit = std::min(most, options_.first_step + claimed_.load(std::memory_order_seq_cst));
    limit_.store(limit, std::memory_order_seq_cst);
    sure = limit == std::min(most, options_.first_step + claimed_.load(std::memory_order_seq_cst));
  }
  return ceiling_ = limit;
}

void Run::fence(uint64_t limit) {
  const std::lock_guard lock(limiting_);
  ceiling_ = limit;
  limit_.store(limit, std::memory_order_seq_cst);
}

void Run::renumber(uint64_t step) {
  first_number_.store(step - turns(), std::memory_order_relaxed);  // extend() publishes it
}

Status Run::set_feed(uint32_t i, const Tensor& value) {
  void* address = program_.feed(i);
  if (!address) return {};  // this partition does not use it
  const PlanValue& expected = program_.partition().values[program_.partition().feeds[i]];
  if (value.dtype() != expected.type.dtype || !(value.shape() == expected.type.shape)) {
    return invalid_argument(cat("feed '", expected.name, "': expected ", expected.type.dtype,
                                expected.type.shape, ", received ", value.dtype(), value.shape()));
  }
  program_.device().copy_to_device(address, value.raw(), value.bytes());
  return {};
}

const void* Run::fetched_data(uint32_t i, uint64_t step) {
  return program_.fetch(i, step - options_.first_step);
}

Tensor Run::fetched(uint32_t i, uint64_t step) {
  const PlanValue& value = program_.partition().values[program_.fetch_value(i)];
  Tensor out(value.type.dtype, value.type.shape);
  if (out.bytes() > 0) std::memcpy(out.raw(), fetched_data(i, step), out.bytes());
  return out;
}

void Run::Turn::fail(uint32_t instruction, Status status) {
  const auto& made_by = run->program_.partition().instructions[instruction];
  const std::string subject =
      made_by.op ? cat(made_by.op->full_name(), " '", made_by.name, "'") : made_by.name;
  std::string message = status.message();
  if (message.find(made_by.name) == std::string::npos) message = cat(subject, ": ", message);
  run->abort(Status(status.code(), message)
                 .while_doing(cat("running step ", step, " of ", run->options_.name, " on ",
                                  run->program_.partition().device)));
}

// Whoever waits for the run may take it apart when it has failed: that comes last.
void Run::abort(const Status& cause) {
  verdict_.fetch_or(1, std::memory_order_acq_rel);
  if (failed_.exchange(true, std::memory_order_acq_rel)) return;
  Exchange& exchange = program_.exchange();
  for (Channel* channel : exchange.channels) {
    if (channel) channel->abort(cause);
  }
  if (exchange.slots) exchange.slots->abort(cause);
  finished_.fail(cause);
}

// May the entry at `position` start, as far as the outside goes?
bool Run::ready(uint64_t position, Awaited& awaited) {
  const uint64_t turn = position / entries_.size();
  const Entry& entry = entries_[position % entries_.size()];
  for (const Await& await : entry.awaits) {
    if (turn + 1 <= await.lag || await.timeline->reached(turn + 1 - await.lag)) continue;
    awaited = {await.timeline, turn + 1 - await.lag, await.instruction};
    return false;
  }
  // What the host is about to read must have left the device's queue.
  awaited.instruction = entry.instruction;
  return drained(awaited, position);
}

// Of the turns below `turn`, those whose values have all left.
uint64_t Run::turns_sent(uint64_t turn, Awaited& awaited) const {
  for (Timeline* sent : program_.sent()) {
    if (sent->reached(turn)) continue;
    awaited = {sent, turn, 0};
    turn = sent->value();
  }
  return turn;
}

// Has the device done all that was issued before `position`? Always, if it works as it is told to.
bool Run::drained(Awaited& awaited, uint64_t position) {
  if (program_.device().host_visible()) return true;
  Queue& queue = program_.device().queue();
  if (marked_position_ != position) {
    mark_ = queue.mark();
    marked_position_ = position;
  }
  awaited.timeline = &queue.timeline();
  awaited.value = mark_;
  return queue.timeline().reached(mark_);
}

// A wait that cannot end well ends the run.
bool Run::gives_up(const Awaited& awaited) {
  if (!awaited.timeline->failed() || awaited.timeline->reached(awaited.value)) return false;
  abort(awaited.timeline->status());
  return true;
}

bool Run::on_this_thread() { return at_work; }

uint64_t Run::tiles_done() const {
  uint64_t tiles = 0;
  for (int t = 0; t < pool_.threads(); ++t)
    tiles += worked_[static_cast<size_t>(t)].tiles.load(std::memory_order_relaxed);
  return tiles;
}

Advanced Run::advance(Awaited& awaited, const Neighbours* neighbours, bool cheaply) {
  const AtWork here;
  const uint64_t n = entries_.size(), most = position_ + kMostCheap;
  for (bool first = true; !failed_.load(std::memory_order_acquire); first = false) {
    const uint64_t pause = pause_.load(std::memory_order_acquire);
    const uint64_t allowed =
        std::min(limit_.load(std::memory_order_acquire) - options_.first_step, pause);
    const uint64_t turn = n == 0 ? turns_finished_ : position_ / n;
    if (turn == pause) {
      if (cheaply) return Advanced::stops;
      if (!drained(awaited, position_)) return gives_up(awaited) ? Advanced::all : Advanced::waits;
      call_between();
      continue;
    }
    if (turns_finished_ < turn) {
      if (!drained(awaited, position_)) return gives_up(awaited) ? Advanced::all : Advanced::waits;
      finish_turns(turns_finished_, turns_sent(turn, awaited));
    }
    if (turn >= allowed) {
      if (turns_finished_ >= turn || gives_up(awaited)) return Advanced::all;
      return Advanced::waits;
    }
    if (!first && neighbours && neighbours->ready.load(std::memory_order_relaxed) > 0)
      return Advanced::stops;
    if (n == 0) {
      if (claim(allowed)) finish_turns(turns_finished_, allowed);
      continue;
    }
    const Entry& entry = entries_[position_ % n];
    if (entry.may_block) {
      if (cheaply) return Advanced::stops;
      if (!claim(turn + 1)) continue;
      if (!run_blocking(entry, turn, awaited))
        return failed_.load(std::memory_order_acquire) ? Advanced::all : Advanced::waits;
      ++position_;
      continue;
    }
    const uint64_t turns = program_.device().host_visible() ? kTurnsPerSegment : 1;
    uint64_t cap = std::min(allowed, turn + turns) * n;
    if (neighbours && neighbours->busy.load(std::memory_order_relaxed) > 1)
      cap = std::min(cap, position_ + kEntriesBesideOthers);
    uint64_t end = segment_end(cap, awaited);
    if (end == position_) return gives_up(awaited) ? Advanced::all : Advanced::waits;
    if (cheaply && (!entry.cheap || position_ >= most)) return Advanced::stops;
    const uint64_t cheap = cheap_end(end);
    bool alone = cheaply || (cheap > position_ && cheap - position_ <= kMostAlone);
    if (alone) end = cheap;
    end = keep_commit_whole(end, alone);
    if (!claim((end + n - 1) / n)) continue;
    run_segment(position_, end, alone);
    commit();
    if (failed_.load(std::memory_order_acquire)) break;
    position_ = end;
  }
  return Advanced::all;
}

// A segment ends before a step is committed, or when all of it is written.
uint64_t Run::keep_commit_whole(uint64_t end, bool& alone) const {
  const uint64_t turn_begin = (end - 1) / entries_.size() * entries_.size();
  if (!is_committing(end - turn_begin)) return end;
  if (turn_begin + commit_ > position_) return turn_begin + commit_;
  alone = alone && entries_[commit_].cheap;
  return turn_begin + commit_end_;
}

// The step's writes are to be done, if the run has not failed before.
bool Run::decide(uint64_t turn) {
  uint64_t verdict = verdict_.load(std::memory_order_acquire);
  while ((verdict & 1) == 0) {
    if (verdict_.compare_exchange_weak(verdict, 2 * (turn + 1), std::memory_order_acq_rel))
      return true;
  }
  return false;
}

// Spins until it is known whether the turn's writes are to be done.
bool Run::await_verdict(uint64_t turn) const {
  while (true) {
    const uint64_t verdict = verdict_.load(std::memory_order_acquire);
    if (verdict >> 1 > turn) return true;
    if ((verdict & 1) != 0) return false;
    sched_yield();
  }
}

// Remembers what has been decided, and is written by now.
void Run::commit() {
  const uint64_t turns = verdict_.load(std::memory_order_acquire) >> 1;
  if (turns == committed_ || !remembers_) return;
  committed_ = turns;
  program_.commits().commit(turn_state(turns - 1).step + 1);
  if (spoiled_.load(std::memory_order_acquire)) program_.commits().taint();
}

// The first entry from position_ on that is not cheap, at most `end`.
uint64_t Run::cheap_end(uint64_t end) const {
  const uint64_t n = entries_.size();
  for (uint64_t turn_begin = position_ / n * n; turn_begin < end; turn_begin += n) {
    const uint64_t from = std::max(position_, turn_begin);
    const uint64_t heavy = turn_begin + next_heavy_[from - turn_begin];
    if (heavy < turn_begin + n) return std::min(heavy, end);
  }
  return end;
}

// The first position from position_ on that cannot start yet, at most `cap`.
uint64_t Run::segment_end(uint64_t cap, Awaited& awaited) {
  const uint64_t n = entries_.size();
  uint64_t end = position_;
  while (end < cap) {
    const uint64_t turn_begin = end / n * n;
    end = turn_begin + next_special_[end - turn_begin];  // n if the turn has nothing special left
    if (end >= cap) return cap;
    if (end == turn_begin + n) continue;
    // An asynchronous device must have been given all that comes before, for its mark to stand
    // after it.
    const bool issued = end == position_ || program_.device().host_visible();
    if (!issued || entries_[end - turn_begin].may_block || !ready(end, awaited)) return end;
    ++end;
  }
  return cap;
}

// What kernels of the turn see. The limit counts as the step does.
void Run::number(uint64_t turn) {
  const uint64_t first = first_number_.load(std::memory_order_relaxed);
  Turn& state = turn_state(turn);
  state.step = first + turn;
  state.limit = first + limit_.load(std::memory_order_acquire) - options_.first_step;
}

// `alone`: by this thread.
void Run::run_segment(uint64_t begin, uint64_t end, bool alone) {
  const uint64_t turns_end = (end + entries_.size() - 1) / entries_.size();
  for (uint64_t turn = begin / entries_.size(); turn < turns_end; ++turn) {
    number(turn);
  }
  if (alone || pool_.threads() == 1 || !program_.device().host_visible()) {
    run_serial(begin, end);
    return;
  }
  const uint64_t n = entries_.size(), per_turn = tile_prefix_.back();
  const auto tiles_before = [&](uint64_t position) {
    return position / n * per_turn + tile_prefix_[position % n];
  };
  Segment segment{this, begin, end, tiles_before(end) - tiles_before(begin), {}};
  pool_.run(&Run::work, &segment);
}

void Run::run_serial(uint64_t begin, uint64_t end) {
  const uint64_t n = entries_.size();
  uint64_t turn = begin / n;
  bool ok = true;
  for (uint64_t position = begin; position < end; ++position) {
    if (position == (turn + 1) * n) ++turn;
    const Entry& entry = entries_[position - turn * n];
    const bool writes = is_committing(position - turn * n) && decided(turn);
    if (!ok && !writes) continue;
    if (!held_.empty() && !entry.cheap) ok = flush_held(entry.instruction, turn) && ok;
    if (writes) {
      if (run_kernel(entry, turn)) continue;
      spoiled_.store(true, std::memory_order_release);
      ok = false;
    } else if (entry.kind == Entry::Kind::kernel) {
      ok = ok && run_kernel(entry, turn) && (!entry.commits || decide(turn));
    } else {
      hold(entry);
      ok = ok && run_tile(entry, turn, 0, scratch_[0]);
    }
  }
  if (!held_.empty()) ok = flush_held(entries_[begin % n].instruction, turn) && ok;
  if (!ok) return;
  // Other segments may run in parallel: they count tiles.
  for (uint64_t position = begin; position < end; ++position) {
    const Entry& entry = entries_[position % n];
    tiles_done_[position % n].fetch_add(entry.tiles, std::memory_order_release);
  }
}

// All tiles of a kernel's entry, on the thread that advances.
bool Run::run_kernel(const Entry& entry, uint64_t turn) {
  for (uint32_t tile = entry.first_tile; tile < entry.first_tile + entry.tiles; ++tile) {
    for (uint32_t k = entry.first; k < entry.last; ++k) {
      BoundKernel& bound = program_.kernel(k);
      const int phase = entry.phase < 0 ? bound.kernel->row_phase() : entry.phase;
      KernelContext& context = bound.context[turn % kSlotDepth];
      context.step = &turn_state(turn);
      const Progress progress = entry.phase >= 0 || bound.tile_operands.empty()
                                    ? bound.kernel->run(context, phase, static_cast<int>(tile))
                                    : run_in_tile_memory(bound, context, phase, tile);
      if (progress > Progress::pending) return false;
      worked_[0].add();
    }
  }
  return true;
}

void Run::work(void* context, int thread) {
  const AtWork here;
  auto& segment = *static_cast<Segment*>(context);
  Run& run = *segment.run;
  const uint64_t n = run.entries_.size(), per_turn = run.tile_prefix_.back();
  const uint64_t offset = segment.begin / n * per_turn + run.tile_prefix_[segment.begin % n];
  uint64_t position = segment.begin;
  uint64_t turn = position / n;
  uint64_t position_first = offset;  // number of the first tile of `position`
  bool new_turn = true;
  while (true) {
    const uint64_t claimed = segment.next.fetch_add(1, std::memory_order_relaxed);
    if (claimed >= segment.tiles) return;
    const uint64_t number = offset + claimed;
    while (number >= position_first + run.entries_[position - turn * n].tiles) {
      position_first += run.entries_[position - turn * n].tiles;
      if (++position == (turn + 1) * n) {
        ++turn;
        new_turn = true;
      }
    }
    const uint64_t e = position - turn * n;
    const Entry& entry = run.entries_[e];
    const auto tile = static_cast<uint32_t>(number - position_first);
    std::byte* const scratch = run.scratch_[static_cast<size_t>(thread)];
    run.worked_[static_cast<size_t>(thread)].add();
    if (run.is_committing(e)) {
      run.write_tile(e, turn, tile, scratch);
      continue;
    }
    // When the run has failed, what is left are writes of steps that were decided.
    if (new_turn && !run.enter_turn(turn)) continue;
    new_turn = false;
    if (!run.wait_for_others(entry, turn) || !run.run_tile(entry, turn, tile, scratch)) continue;
    if (entry.commits && !run.decide(turn)) continue;
    run.tiles_done_[e].fetch_add(1, std::memory_order_release);
  }
}

// False if the run fails meanwhile.
bool Run::wait_for_others(const Entry& entry, uint64_t turn) {
  if (failed_.load(std::memory_order_acquire)) return false;
  for (uint32_t before : entry.after) {
    if (!wait_for_entry(before, turn + 1)) return false;
  }
  for (uint32_t before : entry.after_previous) {
    if (!wait_for_entry(before, turn)) return false;
  }
  return true;
}

// A tile of a step's writes. Once the step is decided, all before the Commit is done, in this step
// and in those before, and all behind it will be.
void Run::write_tile(uint64_t e, uint64_t turn, uint32_t tile, std::byte* scratch) {
  if (!await_verdict(turn)) return;
  const Entry& entry = entries_[e];
  for (uint32_t before : entry.after) {
    const uint64_t wanted = (turn + 1) * entries_[before].tiles;
    while (tiles_done_[before].load(std::memory_order_acquire) < wanted) sched_yield();
  }
  if (!run_tile(entry, turn, tile, scratch)) spoiled_.store(true, std::memory_order_release);
  tiles_done_[e].fetch_add(1, std::memory_order_release);
}

// Contexts and slots are shared by turns of one parity: turn t starts when t - kSlotDepth is over.
bool Run::enter_turn(uint64_t turn) {
  if (turn + 1 > kSlotDepth) {
    for (uint32_t e = 0; e < entries_.size(); ++e) {
      if (!wait_for_entry(e, turn + 1 - kSlotDepth)) return false;
    }
  }
  return true;
}

// Spins until all tiles of entry e of `turns` turns are done; false if the run fails meanwhile.
bool Run::wait_for_entry(uint32_t e, uint64_t turns) {
  const uint64_t wanted = turns * entries_[e].tiles;
  while (tiles_done_[e].load(std::memory_order_acquire) < wanted) {
    if (failed_.load(std::memory_order_acquire)) return false;
    sched_yield();
  }
  return true;
}

bool Run::run_tile(const Entry& entry, uint64_t turn, uint32_t tile, std::byte* scratch) {
  if (entry.kind == Entry::Kind::bundle) return run_bundle(entry, turn, scratch);
  if (entry.kind != Entry::Kind::kernel) return run_transfer(entry, turn);
  tile += entry.first_tile;
  for (uint32_t k = entry.first; k < entry.last; ++k) {
    BoundKernel& bound = program_.kernel(k);
    KernelContext context = bound.context[turn % kSlotDepth];
    context.scratch = scratch;
    context.step = &turn_state(turn);
    const int phase = entry.phase < 0 ? bound.kernel->row_phase() : entry.phase;
    const Progress progress = entry.phase >= 0 || bound.tile_operands.empty()
                                  ? bound.kernel->run(context, phase, static_cast<int>(tile))
                                  : run_in_tile_memory(bound, context, phase, tile);
    if (progress > Progress::pending) return false;
  }
  return true;
}

// Runs a chain's member on operands that lie behind the thread's scratch memory.
Progress Run::run_in_tile_memory(const BoundKernel& bound, KernelContext context, int phase,
                                 uint32_t tile) const {
  std::array<void*, kMostTileOperands> inputs, outputs;
  std::copy_n(context.inputs, std::min<size_t>(bound.inputs, inputs.size()), inputs.begin());
  std::copy_n(context.outputs, std::min<size_t>(bound.outputs, outputs.size()), outputs.begin());
  std::byte* memory = context.scratch + program_.tile_memory();
  for (const TileOperand& operand : bound.tile_operands)
    (operand.output ? outputs : inputs)[operand.index] = operand.address(memory, tile);
  context.inputs = inputs.data();
  context.outputs = outputs.data();
  return bound.kernel->run(context, phase, static_cast<int>(tile));
}

// What one thread sends before work that takes a while, or a wait, travels together.
void Run::hold(const Entry& entry) {
  const auto hold_one = [&](Channel* channel) {
    if (!channel || std::find(held_.begin(), held_.end(), channel) != held_.end()) return;
    channel->hold();
    held_.push_back(channel);
  };
  hold_one(entry.channel);
  for (Channel* channel : entry.channels) hold_one(channel);
}

bool Run::flush_held(uint32_t instruction, uint64_t turn) {
  Status first;
  for (Channel* channel : held_) {
    const Status flushed = channel->flush();
    if (first.ok()) first = flushed;
  }
  held_.clear();
  if (first.ok()) return true;
  turn_state(turn).fail(instruction, first);
  return false;
}

// On a thread of the pool, others may be pushing too.
bool Run::run_bundle(const Entry& bundle, uint64_t turn, std::byte* scratch) {
  for (Channel* channel : bundle.channels) channel->hold();
  bool ok = true;
  for (uint32_t i = bundle.first; ok && i < bundle.last; ++i) {
    const Entry& member = program_.bundled(i);
    for (uint32_t tile = 0; ok && tile < member.tiles; ++tile)
      ok = run_tile(member, turn, tile, scratch);
  }
  for (Channel* channel : bundle.channels) {
    const Status flushed = channel->flush();
    if (flushed.ok() || !ok) continue;
    turn_state(turn).fail(bundle.instruction, flushed);
    ok = false;
  }
  return ok;
}

bool Run::run_transfer(const Entry& entry, uint64_t turn) {
  const PlanInstruction& instruction = program_.partition().instructions[entry.instruction];
  Exchange& exchange = program_.exchange();
  const auto input = [&] { return program_.value_address(instruction.inputs[0], turn); };
  Status status;
  switch (entry.kind) {
    case Entry::Kind::send: {
      const PlanValue& value = program_.partition().values[instruction.inputs[0]];
      const size_t bytes = value.home == Home::none ? 0 : value.type.bytes();
      status = entry.in_place ? entry.channel->push_in_place(entry.edge, turn, input(), bytes)
                              : entry.channel->push(entry.edge, turn, input(), bytes);
      break;
    }
    case Entry::Kind::retire:
      exchange.slots->edge(entry.edge).retired.signal(turn + 1);
      break;
    case Entry::Kind::fetch: {
      const size_t bytes = program_.partition().values[instruction.inputs[0]].type.bytes();
      if (bytes > 0)
        program_.device().copy_to_host(program_.fetch(entry.edge, turn), input(), bytes);
      break;
    }
    default:
      break;  // receive: ready() has seen it
  }
  if (status.ok()) return true;
  turn_state(turn).fail(entry.instruction, status);
  return false;
}

// Runs an entry that may have to wait for another run, on the driver alone.
bool Run::run_blocking(const Entry& entry, uint64_t turn, Awaited& awaited) {
  number(turn);
  BoundKernel& bound = program_.kernel(entry.first);
  for (; blocking_tile_ < entry.tiles; ++blocking_tile_) {
    KernelContext& context = bound.context[turn % kSlotDepth];
    context.step = &turn_state(turn);
    const Progress progress =
        bound.kernel->run(context, entry.phase, static_cast<int>(blocking_tile_));
    if (progress == Progress::failed) return false;
    if (progress == Progress::blocked) {
      awaited = {context.await, context.await_value, entry.instruction};
      return false;
    }
  }
  blocking_tile_ = 0;
  tiles_done_[position_ % entries_.size()].fetch_add(entry.tiles, std::memory_order_release);
  return true;
}

void Run::finish_turns(uint64_t from, uint64_t to) {
  for (uint64_t turn = from; turn < to; ++turn) {
    turns_finished_ = turn + 1;
    finished_.signal(turn + 1);
  }
}

std::string Run::waits_for(const Awaited& awaited) const {
  if (!awaited.timeline) return "";
  const PlanInstruction& instruction = program_.partition().instructions[awaited.instruction];
  const char* what = instruction.kind == PlanInstruction::Kind::receive ? "waits for the value of"
                     : instruction.kind == PlanInstruction::Kind::send
                         ? "waits for room at the reader of"
                         : "is blocked in";
  return cat(options_.name, " on ", program_.partition().device, " ", what, " '", instruction.name,
             "'");
}

bool Run::waits_for_peer(const Awaited& awaited) const {
  if (!awaited.timeline) return false;
  const auto kind = program_.partition().instructions[awaited.instruction].kind;
  return kind == PlanInstruction::Kind::receive || kind == PlanInstruction::Kind::send;
}

}  // namespace leat
