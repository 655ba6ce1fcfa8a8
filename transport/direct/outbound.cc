#include "transport/direct/outbound.h"

#include <array>
#include <bit>
#include <cstring>
#include <utility>

#include "devices/base/text.h"
#include "transport/direct/announcement.h"

namespace leat::direct {

Outbound::Outbound(const std::vector<LinkEdge>& edges, Fail fail, Fail fail_wire)
    : slots_(edges),
      fail_(std::move(fail)),
      fail_wire_(std::move(fail_wire)),
      sent_(slots_.all().size()),
      values_(slots_.most_values()) {}

void Outbound::start(std::unique_ptr<WireSender> sender, WireKind kind, Link& inner) {
  sender_ = std::move(sender);
  kind_ = kind;
  inner_ = &inner;
  if (sender_) await_done();
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

Status Outbound::announce(uint64_t number) {
  const Value& value = values_[number % values_.size()];
  const Announcement announced(number);
  return inner_->push(value.slot->edge, value.turn, announced.bytes.data(), kAnnouncementBytes);
}

// The callback awaits the next value before it returns, so that there is one at a time.
void Outbound::await_done() {
  sender_->done().when(done_ + 1, [this](const Status& status) {
    if (!status.ok()) return fail_wire_(status);
    take_done();
  });
}

void Outbound::take_done() {
  for (const uint64_t now = sender_->done().value(); done_ < now; ++done_) {
    const Value value = values_[done_ % values_.size()];
    if (!announces_first(kind_)) {
      if (const Status announced = announce(done_); !announced.ok()) return fail_(announced);
    }
    sent_[value.slot->index].signal(value.turn + 1);
  }
  await_done();
}

void Outbound::fail(const Status& cause) {
  for (Timeline& sent : sent_) sent.fail(cause);
}

void Outbound::stop(const Status& cause) {
  if (sender_) sender_->stop(cause);
}

}  // namespace leat::direct
