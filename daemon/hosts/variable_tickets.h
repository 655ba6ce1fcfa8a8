// The order in which the steps of a job's sessions may use its variables. Before a step starts, it
// takes a ticket for all variables that it reads or writes. It gives the ticket back when all hosts
// have finished the step.
//
// A ticket joins the queues of all its variables at once, under one lock. It is admitted when it is
// at the front of all of them; readers share the front. All queues have therefore the same order:
// tickets cannot wait for each other in a cycle, and no later ticket overtakes an earlier one. Runs
// that take no tickets, such as a job's training, do not use this class.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

namespace leat {

// The use of one variable by a step.
struct VariableUse {
  uint32_t variable = 0;  // from VariableTickets::number()
  bool write = false;
};

// Threads: any, for all members.
class VariableTickets {
 public:
  // A step that takes a ticket. It must exist until its ticket is given back or withdrawn.
  class Holder {
   public:
    virtual ~Holder() = default;
    // The step may start. A thread that gives back or withdraws another ticket calls this, without
    // a lock.
    virtual void admitted() = 0;
    // Names the step: "step 7 of session 's'". Called under the lock, so it must not take one.
    virtual std::string subject() const = 0;
  };

  // Returns the number of a variable. `name` is for people, and differs between hosts that have a
  // variable of the same name.
  uint32_t number(const std::string& name);

  // Returns true if the holder is admitted; false if admitted() will be called. `uses` names each
  // variable once and must exist until the ticket ends. REQUIRES: the holder has no ticket.
  bool take(Holder& holder, const std::vector<VariableUse>& uses);
  // Gives an admitted ticket back, which may admit others.
  void give_back(Holder& holder);
  // Ends a ticket that waits. Returns false if the holder has no ticket, or if admitted() was
  // called or is about to be: then the holder must give the ticket back.
  bool withdraw(Holder& holder);
  // Describes what a ticket waits for: "variable 'v' on ..., which step 7 of session 's' writes";
  // "" if it waits for nothing.
  std::string waits_for(const Holder& holder) const;

 private:
  struct Place {
    Holder* holder;
    bool write;
    bool granted;
  };
  struct Ticket {
    const std::vector<VariableUse>* uses;
    size_t missing = 0;  // the number of uses that are not granted yet
  };
  struct Variable {
    std::string name;
    std::deque<Place> queue;  // granted places come first
  };
  // Removes the holder's places and grants the places that can follow.
  void leave(Holder& holder, std::vector<Holder*>& admitted);
  void grant(Variable& variable, std::vector<Holder*>& admitted);
  // The ticket of a holder that waits; null if it has none, or is admitted.
  const Ticket* waiting(const Holder& holder) const;

  mutable std::mutex mutex_;
  std::map<std::string, uint32_t> numbers_;
  std::unordered_map<const Holder*, Ticket> tickets_;
  std::deque<Variable> variables_;
};

}  // namespace leat
