#include "scheduler/runtime/run.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "devices/base/text.h"
#include "scheduler/runtime/at_work.h"

namespace leat {
namespace {

// There are contexts and fetches of kFetchDepth turns, and a segment stays well below that.
constexpr uint64_t kTurnsPerSegment = kFetchDepth / 2;
constexpr uint64_t kEntriesBesideOthers = 4;  // of a segment, while other runs have steps to do
constexpr uint64_t kMostCheap = 1024;         // entries that one call runs cheaply
constexpr auto kDrainDeadline = std::chrono::seconds(60);

std::optional<DeviceTransfers> make_transfers(Program& program, TurnContexts& contexts,
                                              RunOutcome& outcome) {
  if (program.device().host_visible()) return {};
  return std::make_optional<DeviceTransfers>(program, contexts, outcome);
}

}  // namespace

Run::Run(Program& program, cpu::Pool& pool, RunOptions options)
    : program_(program),
      options_(std::move(options)),
      limit_(options_),
      verdict_(program),
      outcome_(program, options_, verdict_),
      contexts_(options_, limit_, outcome_),
      recorder_(static_cast<size_t>(pool.threads())),
      transfers_(make_transfers(program, contexts_, outcome_)),
      cursor_(program, verdict_),
      execution_(program, pool, contexts_, verdict_, outcome_, recorder_,
                 transfers_ ? &*transfers_ : nullptr) {
  contexts_.share_with_device(program_.step_numbers());
}

Run::~Run() {
  // Channels may still read values that are on their way out, unless they are told to stop.
  Awaited awaited;
  // Turns that are begun may have sent values whose bytes have not left yet.
  const uint64_t issued = cursor_.turns_begun(cursor_.position());
  const bool all_left =
      cursor_.turns_sent(issued, awaited) == issued && (!transfers_ || transfers_->all_left());
  if (!all_left) abort(cancelled("the run was ended"));
  if (!transfers_) return;
  // An asynchronous device may still run kernels of this run. It does all that it was given before
  // the run failed, unless it has failed itself.
  if (!transfers_->drain(std::chrono::steady_clock::now() + kDrainDeadline).ok()) verdict_.spoil();
  remember(verdict_.decided());
}

void Run::remember(uint64_t turns) {
  turns = std::min(turns, verdict_.decided());
  if (turns <= remembered_) return;
  remembered_ = turns;
  verdict_.remember(contexts_.of(turns - 1).step + 1);
}

void Run::extend(uint64_t limit) {
  // The Commits must know of the writes before the first one can happen.
  verdict_.announce(options_.first_step);
  limit_.extend(limit);
}

Status Run::between_steps(uint64_t step, std::function<void()> between) {
  if (!cursor_.empty()) return limit_.between_steps(step, std::move(between));
  between();  // the program does nothing that would come before
  return {};
}

Status Run::set_feed(uint32_t i, const Tensor& value) {
  void* address = program_.feed(i);
  if (!address) return {};  // this partition does not use it
  const PlanValue& expected = program_.partition().values[program_.partition().feeds[i]];
  if (value.dtype() != expected.type.dtype || !(value.shape() == expected.type.shape)) {
    return invalid_argument(cat("feed '", expected.name, "': expected ", expected.type.dtype,
                                expected.type.shape, ", received ", value.dtype(), value.shape()));
  }
  // A device with a memory of its own copies later, when the caller's bytes may have changed.
  const void* host = value.raw();
  if (void* staging = program_.feed_staging(i)) {
    if (value.bytes() > 0) std::memcpy(staging, value.raw(), value.bytes());
    host = staging;
  }
  Device& device = program_.device();
  device.copy_to_device(address, host, value.bytes());
  Queue& copies = device.queue(QueueFor::copies_in);
  if (transfers_) device.queue().wait_for(copies.timeline(), copies.mark());
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

Advanced Run::advance(Awaited& awaited, const Neighbours* neighbours, bool cheaply) {
  const AtWork here;
  recorder_.end_wait();
  const Visit visit{neighbours, cheaply, cursor_.position() + kMostCheap};
  // Each round does one thing: it calls back, settles finished turns, or runs a segment. The limit
  // is read again in every round, because it may change at any time.
  for (bool first = true; !outcome_.failed(); first = false) {
    if (transfers_) {
      awaited = {};
      transfers_->proceed(limit_.allowance().pause);
      remember(outcome_.turns());
      if (outcome_.failed()) break;
    }
    const StepLimit::Allowance allowed = limit_.allowance();
    const uint64_t turn = cursor_.empty() ? outcome_.turns() : cursor_.turn();
    // The callback comes when all that was issued before is done, and before the turns count as
    // finished. A cheap call leaves it to the driver, because nothing says how long it takes.
    if (turn == allowed.pause) {
      if (cheaply) return Advanced::stops;
      if (transfers_ && !transfers_->has_done(turn)) return wait(awaited);
      limit_.call_between();
      continue;
    }
    if (outcome_.turns() < turn && !transfers_) outcome_.finish(cursor_.turns_sent(turn, awaited));
    // A run at its limit waits until its values have left, and its device has done its work.
    if (turn >= allowed.turns) {
      if (outcome_.turns() < turn) return wait(awaited);
      recorder_.begin_wait(StepEvent::Kind::limit, kNone, turn);
      return Advanced::all;
    }
    if (!has_room_for(turn)) return wait(awaited);
    // The first segment always runs, so that each visit makes progress however many neighbours
    // there are.
    if (!first && neighbours && neighbours->ready.load(std::memory_order_relaxed) > 0)
      return Advanced::stops;
    // A program without entries has only its turns to count.
    if (cursor_.empty()) {
      if (limit_.claim(allowed.turns)) outcome_.finish(allowed.turns);
      continue;
    }
    const std::optional<Advanced> ended = cursor_.entry().may_block
                                              ? run_blocking(visit, awaited)
                                              : run_entries(allowed.turns, visit, awaited);
    if (ended) return *ended;
  }
  return Advanced::all;
}

// An asynchronous device has up to kSlotDepth turns to do: as many as there are buffers for.
bool Run::has_room_for(uint64_t turn) const {
  return !transfers_ || turn < outcome_.turns() + kSlotDepth;
}

Advanced Run::wait(Awaited& awaited) {
  if (transfers_) transfers_->add_waits(awaited);
  if (!cursor_.empty())
    recorder_.begin_wait(StepEvent::Kind::wait, awaited.instruction, cursor_.turn());
  return outcome_.fails_with(awaited) ? Advanced::all : Advanced::waits;
}

// Runs the next segment of the turns below `allowed`. Returns why it did not, or nothing.
std::optional<Advanced> Run::run_entries(uint64_t allowed, const Visit& visit, Awaited& awaited) {
  // A segment is longer when nothing else wants the device, since each start of the pool costs
  // time.
  const uint64_t turns = program_.device().host_visible() ? kTurnsPerSegment : 1;
  uint64_t cap = cursor_.begin_of(std::min(allowed, cursor_.turn() + turns));
  // A device takes what it is given in no time, and some of it as a whole.
  if (!transfers_ && visit.neighbours && visit.neighbours->busy.load(std::memory_order_relaxed) > 1)
    cap = std::min(cap, cursor_.position() + kEntriesBesideOthers);
  const uint64_t end = cursor_.startable(cap, awaited);
  if (end == cursor_.position()) return wait(awaited);
  if (visit.cheaply && (!cursor_.entry().cheap || cursor_.position() >= visit.cheap_positions_end))
    return Advanced::stops;
  const Segment segment = cursor_.cut(end, visit.cheaply);
  // The limit was lowered between allowance() and here. The next round sees the new one.
  if (!limit_.claim(cursor_.turns_begun(segment.end))) return {};
  execution_.run(segment);
  // Also of a run that failed meanwhile: what was decided is written.
  if (const uint64_t decided = transfers_ ? 0 : verdict_.take_decided(); decided > 0)
    verdict_.remember(contexts_.of(decided - 1).step + 1);
  if (!outcome_.failed()) move_to(segment.end);
  return {};
}

// Runs the next entry, whose kernel may have to wait for another run. Returns why it did not, or
// nothing.
std::optional<Advanced> Run::run_blocking(const Visit& visit, Awaited& awaited) {
  if (visit.cheaply) return Advanced::stops;
  if (!limit_.claim(cursor_.turn() + 1)) return {};
  if (!execution_.run_blocking(cursor_.position(), awaited)) {
    if (outcome_.failed()) return Advanced::all;
    recorder_.begin_wait(StepEvent::Kind::wait, awaited.instruction, cursor_.turn());
    return Advanced::waits;
  }
  move_to(cursor_.position() + 1);
  return {};
}

void Run::move_to(uint64_t position) {
  const uint64_t turn = cursor_.turn();
  cursor_.move_to(position);
  at_position_.store(position, std::memory_order_relaxed);
  if (transfers_ && cursor_.turn() > turn) transfers_->end_turn(turn);
}

RunSight Run::sight(const Awaited* awaited) const {
  RunSight sight;
  const uint64_t n = program_.entries().size();
  sight.finished = turns();
  sight.turn = n == 0 ? sight.finished : at_position_.load(std::memory_order_relaxed) / n;
  sight.allowed = limit_.limit() - std::min(limit_.limit(), options_.first_step);
  sight.tiles = work().tiles;
  // A run that waits for its own device works: the device does.
  const bool waits = awaited && awaited->timeline;
  if (waits && awaited->instruction != kNone) {
    const auto kind = program_.partition().instructions[awaited->instruction].kind;
    sight.instruction = awaited->instruction;
    sight.state = kind == PlanInstruction::Kind::receive ? RunSight::State::receives
                  : kind == PlanInstruction::Kind::send  ? RunSight::State::sends
                                                         : RunSight::State::blocked;
    return sight;
  }
  if (outcome_.failed() || sight.finished >= sight.allowed) return sight;
  sight.state = RunSight::State::working;
  if (!waits) sight.instruction = execution_.at_work();
  return sight;
}

std::string Run::waits_for(const Awaited& awaited) const {
  if (!awaited.timeline) return "";
  const std::string where = cat(options_.name, " on ", program_.partition().device, " ");
  if (awaited.instruction == kNone) return cat(where, "waits for its device");
  const PlanInstruction& instruction = program_.partition().instructions[awaited.instruction];
  const char* what = instruction.kind == PlanInstruction::Kind::receive ? "waits for the value of"
                     : instruction.kind == PlanInstruction::Kind::send
                         ? "waits for room at the reader of"
                         : "is blocked in";
  return cat(where, what, " '", instruction.name, "'");
}

}  // namespace leat
