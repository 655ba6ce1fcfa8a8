#include "scheduler/runtime/device_transfers.h"

#include <algorithm>

namespace leat {
namespace {

// Each entry and the end of the turn, of all turns in flight.
size_t most_pending(const Program& program) { return kSlotDepth * (program.entries().size() + 1); }

}  // namespace

DeviceTransfers::DeviceTransfers(Program& program, TurnContexts& contexts, RunOutcome& outcome)
    : program_(program),
      contexts_(contexts),
      outcome_(outcome),
      device_(program.device()),
      compute_(device_.queue(QueueFor::compute)),
      in_(device_.queue(QueueFor::copies_in)),
      out_(device_.queue(QueueFor::copies_out)),
      arriving_(most_pending(program)),
      leaving_(most_pending(program)),
      direct_at_(program.entries().size(), kNone) {
  for (const Entry& entry : program.entries()) {
    if (entry.kind != Entry::Kind::send || !entry.channel ||
        !entry.channel->takes_device_memory(entry.edge))
      continue;
    direct_at_[place_of(entry)] = static_cast<uint32_t>(direct_.size());
    direct_.push_back({&entry, *entry.channel->sent(entry.edge)});
  }
}

size_t DeviceTransfers::place_of(const Entry& entry) const {
  return static_cast<size_t>(&entry - program_.entries().data());
}

const PlanInstruction& DeviceTransfers::instruction_of(const Entry& entry) const {
  return program_.partition().instructions[entry.instruction];
}

void DeviceTransfers::issue(const Entry& entry, uint64_t turn) {
  if (entry.kind == Entry::Kind::receive) return receive(entry, turn);
  if (entry.kind == Entry::Kind::retire) return;  // the slot went back when its value was copied in
  depart(entry, turn);
  await_kernels();
  travel(entry, turn);
}

void DeviceTransfers::depart(const Entry& entry, uint64_t turn) {
  void* departure = nullptr;
  if (entry.kind == Entry::Kind::send)
    departure = program_.departure(entry.edge, turn);
  else if (entry.kind == Entry::Kind::fetch && bytes_sent(entry) > 0)
    departure = program_.fetch_departure(entry.edge, turn);
  if (!departure) return;
  const uint32_t value = instruction_of(entry).inputs[0];
  device_.copy_within(departure, program_.value_address(value, turn), bytes_sent(entry));
}

// Also for a token, which stands for what came before it.
void DeviceTransfers::await_kernels() { out_.wait_for(compute_.timeline(), compute_.mark()); }

void DeviceTransfers::travel(const Entry& entry, uint64_t turn) {
  if (entry.kind == Entry::Kind::send) {
    if (void* staging = program_.staging(entry.edge, turn)) {
      device_.copy_to_host(staging, program_.departure(entry.edge, turn), bytes_sent(entry));
    }
    leaving_.push({out_.mark(), &entry, turn});
  } else if (entry.kind == Entry::Kind::fetch && bytes_sent(entry) > 0) {
    device_.copy_to_host(program_.fetch(entry.edge, turn),
                         program_.fetch_departure(entry.edge, turn), bytes_sent(entry));
  }
}

size_t DeviceTransfers::bytes_sent(const Entry& entry) const {
  return program_.partition().values[instruction_of(entry).inputs[0]].type.bytes();
}

// Work that is enqueued later starts when the value is on the device.
void DeviceTransfers::receive(const Entry& entry, uint64_t turn) {
  void* landing = program_.landing(entry.edge, turn);
  if (!landing) return arriving_.push({0, &entry, turn});  // a token has nothing to copy
  SlotTable& slots = *program_.exchange().slots;
  device_.copy_to_device(landing, slots.slot(entry.edge, turn), slots.edge(entry.edge).bytes);
  const uint64_t mark = in_.mark();
  compute_.wait_for(in_.timeline(), mark);
  arriving_.push({mark, &entry, turn});
}

void DeviceTransfers::end_turn(uint64_t turn) {
  await_kernels();
  leaving_.push({out_.mark(), nullptr, turn});
}

void DeviceTransfers::proceed(uint64_t pause) {
  for (; !arriving_.empty() && in_.timeline().reached(arriving_.front().mark); arriving_.pop()) {
    const Pending& arrived = arriving_.front();
    // The link listens to this timeline and gives the sender its credit back.
    program_.exchange().slots->edge(arrived.entry->edge).retired.signal(arrived.turn + 1);
  }
  for (; !leaving_.empty() && out_.timeline().reached(leaving_.front().mark); leaving_.pop()) {
    const Pending& left = leaving_.front();
    if (!left.entry) {
      if (left.turn + 1 == pause || unsent(left.turn)) return;
      outcome_.finish(left.turn + 1);
      continue;
    }
    if (!has_credit(left)) return;
    if (const Status pushed = push(left); !pushed.ok()) {
      contexts_.of(left.turn).fail(left.entry->instruction, pushed);
      return;
    }
  }
}

bool DeviceTransfers::has_done(uint64_t pause) const {
  if (!arriving_.empty()) return false;
  if (leaving_.empty()) return true;
  const Pending& next = leaving_.front();
  return !next.entry && next.turn + 1 == pause && out_.timeline().reached(next.mark);
}

// A plan that is only tried has no channels.
bool DeviceTransfers::has_credit(const Pending& pending) const {
  const Entry& entry = *pending.entry;
  return !entry.channel || pending.turn + 1 <= kSlotDepth ||
         entry.channel->credit(entry.edge).reached(pending.turn + 1 - kSlotDepth);
}

Status DeviceTransfers::push(const Pending& pending) {
  const Entry& entry = *pending.entry;
  if (!entry.channel) return {};
  if (const uint32_t at = direct_at_[place_of(entry)]; at != kNone) {
    // Also a push that fails may have been given the bytes.
    direct_[at].pushed = pending.turn + 1;
    return entry.channel->push_in_place(
        entry.edge, pending.turn, program_.departure(entry.edge, pending.turn), bytes_sent(entry));
  }
  const void* staging = program_.staging(entry.edge, pending.turn);
  const size_t bytes = staging ? bytes_sent(entry) : 0;
  return entry.channel->push(entry.edge, pending.turn, staging, bytes);
}

const DeviceTransfers::Direct* DeviceTransfers::unsent(uint64_t turn) const {
  for (const Direct& direct : direct_) {
    if (!direct.sent.reached(turn + 1)) return &direct;
  }
  return nullptr;
}

bool DeviceTransfers::all_left() const {
  return std::all_of(direct_.begin(), direct_.end(),
                     [](const Direct& direct) { return direct.sent.reached(direct.pushed); });
}

void DeviceTransfers::add_waits(Awaited& awaited) const {
  // A mark may have been reached since proceed(). Its wait is over at once then.
  if (!arriving_.empty()) awaited.add(in_.timeline(), arriving_.front().mark);
  if (leaving_.empty()) return;
  const Pending& next = leaving_.front();
  const bool is_out = out_.timeline().reached(next.mark);
  const Direct* const unsent = is_out && !next.entry ? this->unsent(next.turn) : nullptr;
  if (unsent) {
    if (!awaited.timeline) awaited.instruction = unsent->send->instruction;
    awaited.add(unsent->sent, next.turn + 1);
  } else if (!next.entry || !is_out || has_credit(next)) {
    awaited.add(out_.timeline(), next.mark);
  } else {
    if (!awaited.timeline) awaited.instruction = next.entry->instruction;
    awaited.add(next.entry->channel->credit(next.entry->edge), next.turn + 1 - kSlotDepth);
  }
}

Status DeviceTransfers::drain(std::chrono::steady_clock::time_point deadline) {
  Status first;
  for (Queue* queue : {&in_, &compute_, &out_}) {
    const Status drained = queue->settle(deadline);
    if (first.ok()) first = drained;
  }
  // A channel that was aborted reads memory of the device until sent() fails.
  for (const Direct& direct : direct_) {
    const Status left = direct.sent.wait(direct.pushed, deadline);
    if (first.ok() && left.code() == Code::deadline_exceeded) first = left;
  }
  return first;
}

}  // namespace leat
