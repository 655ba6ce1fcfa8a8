#include "tests/daemon/sim/world.h"

namespace leat::sim {

bool World::step() {
  if (events_.empty()) return false;
  Event event = events_.top();
  events_.pop();
  clock_.advance(std::chrono::milliseconds(event.at - now_));
  now_ = event.at;
  ++steps_;
  const Process* process = event.process;
  if (process != nullptr && (!process->alive || process->life != event.life)) return true;
  if (process != nullptr && process->stopped_until > now_) {
    event.at = process->stopped_until;
    event.order = ++last_;
    events_.push(std::move(event));
  } else {
    event.task();
  }
  return true;
}

}  // namespace leat::sim
