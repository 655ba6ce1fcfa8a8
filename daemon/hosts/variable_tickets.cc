#include "daemon/hosts/variable_tickets.h"

#include <algorithm>

#include "devices/base/text.h"

namespace leat {

uint32_t VariableTickets::number(const std::string& name) {
  std::lock_guard lock(mutex_);
  // A number is never given up, so it stays the index of its variable.
  const auto [it, fresh] = numbers_.try_emplace(name, static_cast<uint32_t>(variables_.size()));
  if (fresh) variables_.push_back({name, {}});
  return it->second;
}

bool VariableTickets::take(Holder& holder, const std::vector<VariableUse>& uses) {
  std::lock_guard lock(mutex_);
  Ticket& ticket = tickets_[&holder];
  ticket = {&uses};
  // One lock for all queues gives every queue the same order of tickets, which excludes a cycle.
  for (const VariableUse& use : uses) {
    auto& queue = variables_[use.variable].queue;
    // A reader joins other readers only at the end of the queue: behind a writer that waits it
    // waits, too.
    const bool granted =
        queue.empty() || (!use.write && queue.back().granted && !queue.back().write);
    queue.push_back({&holder, use.write, granted});
    if (!granted) ++ticket.missing;
  }
  return ticket.missing == 0;
}

// Grants the readers at the front of the queue, or the one writer there.
void VariableTickets::grant(Variable& variable, std::vector<Holder*>& admitted) {
  bool first = true;
  for (Place& place : variable.queue) {
    if (!first && place.write) return;
    if (!place.granted) {
      place.granted = true;
      // The callers of this function call admitted() later, without the lock.
      if (--tickets_.at(place.holder).missing == 0) admitted.push_back(place.holder);
    }
    if (place.write) return;
    first = false;
  }
}

// REQUIRES: the mutex is held, and the holder has a ticket.
void VariableTickets::leave(Holder& holder, std::vector<Holder*>& admitted) {
  const auto ticket = tickets_.extract(&holder).mapped();
  for (const VariableUse& use : *ticket.uses) {
    Variable& variable = variables_[use.variable];
    const auto it = std::find_if(variable.queue.begin(), variable.queue.end(),
                                 [&](const Place& place) { return place.holder == &holder; });
    variable.queue.erase(it);
    grant(variable, admitted);
  }
}

void VariableTickets::give_back(Holder& holder) {
  std::vector<Holder*> admitted;
  {
    std::lock_guard lock(mutex_);
    leave(holder, admitted);
  }
  for (Holder* next : admitted) next->admitted();
}

bool VariableTickets::withdraw(Holder& holder) {
  std::vector<Holder*> admitted;
  {
    std::lock_guard lock(mutex_);
    if (waiting(holder) == nullptr) return false;
    leave(holder, admitted);
  }
  for (Holder* next : admitted) next->admitted();
  return true;
}

// A ticket without missing uses is admitted already, or another thread is about to call admitted().
const VariableTickets::Ticket* VariableTickets::waiting(const Holder& holder) const {
  const auto found = tickets_.find(&holder);
  return found == tickets_.end() || found->second.missing == 0 ? nullptr : &found->second;
}

std::string VariableTickets::waits_for(const Holder& holder) const {
  std::lock_guard lock(mutex_);
  const Ticket* const ticket = waiting(holder);
  if (ticket == nullptr) return "";
  for (const VariableUse& use : *ticket->uses) {
    const Variable& variable = variables_[use.variable];
    for (const Place& place : variable.queue) {
      if (place.holder == &holder) break;
      // A reader does not wait for another reader, but for a writer between them.
      if (!place.write && !use.write) continue;
      return cat(variable.name, ", which ", place.holder->subject(),
                 place.write ? " writes" : " reads");
    }
  }
  return "a turn";
}

}  // namespace leat
