// Who may touch which variables of a job now: a step takes a ticket for all the variables that it
// reads or writes before it starts, and gives it back when all workers have finished it.
//
// A ticket queues for each of its variables at once, under one lock, and is admitted when it is at
// the front of all of them, readers side by side. So all queues have one order: tickets cannot wait
// for each other in a ring, and nobody is overtaken by those who came later. Nothing here is on the
// path of runs that take no tickets, such as a job's training.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace leat {

// A variable that a step touches.
struct VariableUse {
  uint32_t variable = 0;  // as VariableTickets::number() numbers them
  bool write = false;
};

// Threads: any, for all members.
class VariableTickets {
 public:
  class Holder {
   public:
    virtual ~Holder() = default;
    // It may start. Comes from the thread that gave back what it waited for, under no lock.
    virtual void admitted() = 0;
    // "step 7 of session 's'". Called under the lock: it takes none.
    virtual std::string who() const = 0;

   private:
    friend class VariableTickets;
    const std::vector<VariableUse>* uses_ = nullptr;
    size_t missing_ = 0;  // uses that are not granted yet
  };

  // The number of a variable; `name` is for people and distinguishes the workers that hold one.
  uint32_t number(const std::string& name);

  // True: admitted. False: admitted() will come. `uses` names each variable once and lives until
  // the ticket is given back. REQUIRES: the holder has no ticket.
  bool take(Holder& holder, const std::vector<VariableUse>& uses);
  // Gives an admitted ticket back, which admits others.
  void give_back(Holder& holder);
  // Ends a ticket that waits. False if it is none, or admitted() has come or is about to: then the
  // ticket is to be given back.
  bool withdraw(Holder& holder);
  // "variable 'v' on ..., which step 7 of session 's' writes"; "" if it waits for nothing.
  std::string waits_for(const Holder& holder) const;

 private:
  struct Place {
    Holder* holder;
    bool write;
    bool granted;
  };
  struct Variable {
    std::string name;
    std::deque<Place> queue;  // those that are granted come first
  };
  // Takes the holder's places out and grants what that lets in.
  void leave(Holder& holder, std::vector<Holder*>& admitted);
  static void grant(Variable& variable, std::vector<Holder*>& admitted);

  mutable std::mutex mutex_;
  std::map<std::string, uint32_t> numbers_;
  std::deque<Variable> variables_;
};

}  // namespace leat
