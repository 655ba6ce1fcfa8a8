#include "transport/direct/outbound.h"

#include <array>
#include <bit>
#include <cstring>
#include <utility>

#include "devices/base/text.h"

namespace leat::direct {

Outbound::Outbound(const std::vector<LinkEdge>& edges, Calls calls)
    : slots_(edges),
      calls_(std::move(calls)),
      sent_(slots_.all().size()),
      values_(slots_.most_values()) {}

Status Outbound::connect(std::unique_ptr<WireSender> sender, WireKind kind,
                         std::chrono::steady_clock::time_point deadline) {
  {
    const std::lock_guard lock(wire_mutex_);
    LEAT_RETURN_IF_ERROR(stopped_);
    sender_ = std::move(sender);
    done_of_wire_ = &sender_->done();
    kind_ = kind;
  }
  return sender_->connect(deadline);
}

Status Outbound::push(uint32_t edge, uint64_t turn, const void* data, size_t bytes) {
  const WireSlot& slot = *slots_.find(edge);
  if (bytes != slot.bytes) {
    return invalid_argument(
        cat("edge ", edge, ": expected ", slot.bytes, " bytes, received ", bytes));
  }
  const std::lock_guard lock(mutex_);
  const uint64_t number = given_++;
  values_[number % values_.size()] = {&slot, turn};
  bytes_sent_.fetch_add(bytes, std::memory_order_relaxed);
  sender_->send(data, WireSlots::offset(slot, turn), bytes);
  return announces_first(kind_) ? announce(number) : Status();
}

Status Outbound::announce(uint64_t number) const {
  const Value& value = values_[number % values_.size()];
  return calls_.announce(value.slot->edge, value.turn, number);
}

// The callback awaits the next value before it returns, so that there is one at a time.
void Outbound::await_done() {
  done_of_wire_->when(done_ + 1, [this](const Status& status) {
    if (status.ok()) return take_done();
    const Status failed = calls_.fail_wire(status);
    for (Timeline& sent : sent_) sent.fail(failed);
  });
}

// A value that could not be announced has failed the link, which ends the wire.
void Outbound::take_done() {
  for (const uint64_t now = done_of_wire_->value(); done_ < now; ++done_) {
    const Value value = values_[done_ % values_.size()];
    if (!announces_first(kind_)) (void)announce(done_).ok();
    sent_[value.slot->index].signal(value.turn + 1);
  }
  await_done();
}

void Outbound::stop(const Status& cause) {
  const std::lock_guard lock(wire_mutex_);
  if (stopped_.ok()) stopped_ = cause;
  if (sender_) sender_->stop(cause);
}

void Outbound::drop() {
  std::unique_ptr<WireSender> dropped;  // destroyed without the lock
  const std::lock_guard lock(wire_mutex_);
  dropped = std::move(sender_);
}

}  // namespace leat::direct
