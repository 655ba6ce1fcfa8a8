#include "tests/daemon/sim/network.h"

#include <algorithm>

namespace leat::sim {
namespace {

constexpr Ms kUnacknowledged = 2000;  // TCP_USER_TIMEOUT

}  // namespace

std::pair<EndPtr, EndPtr> Network::connect(const Process& from, int machine, const Process& to,
                                           int at) {
  if (is_cut(machine, at) || is_cut(at, machine) || !from.alive || !to.alive) return {};
  const auto make = [&](const Process& process, int where) {
    auto end = std::make_shared<End>();
    end->network_ = this;
    end->owner_ = &process;
    end->life_ = process.life;
    end->machine_ = where;
    ends_.push_back(end);
    return end;
  };
  if (ends_.size() > 256) std::erase_if(ends_, [](const auto& each) { return each.expired(); });
  const EndPtr a = make(from, machine), b = make(to, at);
  a->other_ = b;
  b->other_ = a;
  return {a, b};
}

void Network::heal(int from, int to) {
  cuts_.erase({from, to});
  for (const auto& each : ends_) {
    const EndPtr end = each.lock();
    if (end == nullptr || end->machine_ != to) continue;
    const EndPtr other = end->other_.lock();
    if (other != nullptr && other->machine_ != from) continue;
    for (Task& task : std::exchange(end->held_, {})) end->arrive(std::move(task));
  }
}

void Network::died(const Process& process) {
  for (size_t i = 0; i < ends_.size(); ++i) {
    const EndPtr end = ends_[i].lock();
    if (end != nullptr && end->owner_ == &process && end->life_ == process.life) end->close();
  }
}

void End::send(Task task) {
  const EndPtr other = other_.lock();
  if (!open_ || other == nullptr) return;
  World& world = network_->world_;
  const int from = machine_, to = other->machine_;
  other->last_ = std::max(other->last_, world.now() + world.between(0, network_->slowest));
  world.after(other->last_ - world.now(), [other, from, to, task = std::move(task),
                                           self = weak_from_this()]() mutable {
    Network& network = *other->network_;
    if (network.is_cut(from, to) || !other->held_.empty()) {
      other->held_.push_back(std::move(task));
      if (const EndPtr sender = self.lock())
        sender->time_out_unless([other] { return other->held_.empty(); });
      return;
    }
    if (const EndPtr sender = self.lock(); sender != nullptr && network.is_cut(to, from))
      sender->time_out_unless([&network, from, to] { return !network.is_cut(to, from); });
    other->arrive(std::move(task));
  });
}

void End::arrive(Task task) {
  network_->world_.after(*owner_, 0,
                         [self = shared_from_this(), life = life_, task = std::move(task)] {
                           if (self->open_ && self->owner_->life == life) task();
                         });
}

// Ends the connection at this end if a message stays unacknowledged for too long.
void End::time_out_unless(const std::function<bool()>& well) {
  network_->world_.after(kUnacknowledged, [self = weak_from_this(), well] {
    const EndPtr end = self.lock();
    if (end == nullptr || !end->open_ || well()) return;
    const EndPtr other = end->other_.lock();
    end->send([other] {
      if (other != nullptr) other->lost();
    });
    end->timed_out_ = true;
    end->lost();
  });
}

void End::lost() {
  if (!std::exchange(open_, false)) return;
  network_->world_.after(*owner_, 0, [self = shared_from_this()] {
    if (const Task closed = std::exchange(self->on_closed, nullptr)) closed();
  });
}

void End::close() {
  if (!open_) return;
  const EndPtr other = other_.lock();
  if (other != nullptr) send([other] { other->lost(); });
  open_ = false;
  on_closed = nullptr;
}

}  // namespace leat::sim
