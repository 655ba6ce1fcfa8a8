#include "transport/direct/inbound.h"

#include <algorithm>
#include <utility>

#include "devices/base/text.h"
#include "transport/direct/announcement.h"

namespace leat::direct {
namespace {

// A part of the memory of a wire.
class SlotOfWire final : public Buffer {
 public:
  SlotOfWire(std::byte* data, size_t size) : data_(data), size_(size) {}
  void* data() const override { return data_; }
  size_t size() const override { return size_; }

 private:
  std::byte* data_;
  size_t size_;
};

}  // namespace

Inbound::Inbound(const LinkSetup& outer, SlotTable& inner, Fail fail, Fail fail_wire)
    : outer_(outer),
      inner_(inner),
      fail_(std::move(fail)),
      fail_wire_(std::move(fail_wire)),
      slots_(outer.incoming),
      with_slots_(slots_.all().size()),
      values_(slots_.most_values()) {
  for (const LinkEdge& incoming : outer.incoming) {
    auto edge = std::make_unique<Edge>();
    edge->edge = incoming.edge;
    edge->slot = slots_.find(incoming.edge);
    if (edge->slot) with_slots_[edge->slot->index] = edge.get();
    edges_.push_back(std::move(edge));
  }
}

Status Inbound::open(WireKind kind, Device& device) {
  std::byte* base = nullptr;
  if (slots_.bytes() > 0) {
    LEAT_ASSIGN_OR_RETURN(memory_, device.allocate(slots_.bytes()));
    base = static_cast<std::byte*>(memory_->data());
    LEAT_ASSIGN_OR_RETURN(receiver_, device.make_wire_receiver(kind, *memory_));
    done_of_wire_ = &receiver_->done();
  }
  for (const auto& edge : edges_) {
    std::vector<std::unique_ptr<Buffer>> slots;
    for (uint64_t turn = 0; edge->slot && turn < kSlotDepth; ++turn) {
      slots.push_back(std::make_unique<SlotOfWire>(base + WireSlots::offset(*edge->slot, turn),
                                                   edge->slot->bytes));
    }
    outer_.slots->open(edge->edge, edge->slot ? edge->slot->bytes : 0, std::move(slots));
  }
  return {};
}

void Inbound::start() {
  if (done_of_wire_) await_done();
  for (const auto& edge : edges_) {
    await_retired(*edge, 1);
    await_announcement(*edge);
  }
}

// Each timeline has one callback at a time, which awaits the next count before it returns.
void Inbound::await_announcement(Edge& edge) {
  inner_.edge(edge.edge).arrived.when(edge.announced + 1, [this, &edge](const Status& status) {
    if (!status.ok()) return fail_(status);
    take_announcements(edge);
  });
}

void Inbound::take_announcements(Edge& edge) {
  const uint64_t now = inner_.edge(edge.edge).arrived.value();
  for (; edge.announced < now; ++edge.announced) {
    if (!edge.slot) {
      arrive(edge, edge.announced);
      continue;
    }
    const uint64_t number = Announcement::read(inner_.slot(edge.edge, edge.announced));
    if (const Status noted = note(edge, edge.announced, number); !noted.ok()) return fail_(noted);
  }
  if (edge.slot) receive_announced();
  await_announcement(edge);
}

// The number comes from the peer.
Status Inbound::note(Edge& edge, uint64_t turn, uint64_t number) {
  const std::lock_guard lock(mutex_);
  Value& value = values_[number % values_.size()];
  if (number < done_ || number - done_ >= values_.size() || value.announced) {
    return invalid_argument(cat("link ", outer_.self, " to ", outer_.peer, ": ", outer_.peer,
                                " broke the protocol: edge ", edge.edge, " turn ", turn,
                                ": expected the number of a value on the wire from ", done_,
                                " on that was not announced, received ", number));
  }
  value = {true, edge.slot, turn};
  return {};
}

// One thread at a time gives the wire its values, and a wire may be done with one at once.
void Inbound::receive_announced() {
  std::unique_lock lock(mutex_);
  if (receiving_) return;
  receiving_ = true;
  // The place of a value that is not done is no place of a later one.
  while (!closed_ && next_ - done_ < values_.size() && values_[next_ % values_.size()].announced) {
    const Value value = values_[next_ % values_.size()];
    ++next_;
    lock.unlock();
    receiver_->receive(WireSlots::offset(*value.slot, value.turn), value.slot->bytes);
    lock.lock();
  }
  receiving_ = false;
  idle_.notify_all();
}

void Inbound::await_done() {
  uint64_t next;
  {
    const std::lock_guard lock(mutex_);
    next = done_ + 1;
  }
  done_of_wire_->when(next, [this](const Status& status) {
    if (!status.ok()) return fail_wire_(status);
    take_done();
  });
}

void Inbound::take_done() {
  const uint64_t now = done_of_wire_->value();
  while (true) {
    Value value;
    {
      const std::lock_guard lock(mutex_);
      if (done_ == now) break;
      value = std::exchange(values_[done_ % values_.size()], {});
      ++done_;
    }
    bytes_received_.fetch_add(value.slot->bytes, std::memory_order_relaxed);
    arrive(*with_slots_[value.slot->index], value.turn);
  }
  await_done();
}

void Inbound::arrive(Edge& edge, uint64_t turn) {
  edge.arrived.store(turn + 1);
  outer_.slots->edge(edge.edge).arrived.signal(turn + 1);
  give_back(edge);
}

void Inbound::await_retired(Edge& edge, uint64_t count) {
  outer_.slots->edge(edge.edge).retired.when(count, [this, &edge](const Status& status) {
    if (!status.ok()) return;
    const uint64_t now = outer_.slots->edge(edge.edge).retired.value();
    give_back(edge);
    await_retired(edge, now + 1);
  });
}

// A turn that was closed before its value came is given back when the value is there: the wire
// writes to its slot until then.
void Inbound::give_back(Edge& edge) {
  const uint64_t retired = outer_.slots->edge(edge.edge).retired.value();
  inner_.edge(edge.edge).retired.signal(std::min(retired, edge.arrived.load()));
}

void Inbound::stop(const Status& cause) {
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }
  for (const auto& edge : edges_) {
    if (!outer_.slots->is_open(edge->edge)) continue;
    outer_.slots->edge(edge->edge).arrived.fail(cause);
    outer_.slots->edge(edge->edge).retired.fail(cause);
  }
  if (receiver_) receiver_->stop(cause);
}

std::unique_ptr<Buffer> Inbound::drop() {
  {
    std::unique_lock lock(mutex_);
    closed_ = true;
    idle_.wait(lock, [this] { return !receiving_; });
  }
  receiver_.reset();
  return std::move(memory_);
}

}  // namespace leat::direct
