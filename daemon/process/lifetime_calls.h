// The functions that the parts of a daemon have registered with its Lifetime, and the loops that it
// watches. Private to the Lifetime and its Watchdog.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>

#include "daemon/process/life_sign.h"

namespace leat {

// One registration. Exactly one of its functions is set. A watched loop that beats by itself has
// none.
struct LifetimeCall {
  // Called at the stop, and at each SIGHUP.
  std::function<void()> stop = {}, reload = {};
  // Returns the text for the log at SIGUSR1.
  std::function<std::string()> dump = {};
  std::string watched = {};  // the name of a watched loop; "" for other registrations
  // Makes the loop beat soon. Empty for a loop that beats by itself.
  std::function<void(LifeSign)> ask = {};
  // Empty unless a loop is watched.
  LifeSign heart = {};
  bool silent = false;  // the watchdog has logged that the loop shows no life
};

// Lifetime owns it. A registration lives from add() to remove(); numbers are never used again.
// Threads: any; for_each() belongs to one thread.
class LifetimeCalls {
 public:
  // Returns the number of the registration, which is greater than 0.
  uint64_t add(LifetimeCall call);
  // Waits for a call in progress, so never call it from within that call.
  void remove(uint64_t id);
  // Returns the heartbeat of a watched loop. REQUIRES: the loop is registered.
  LifeSign heart(uint64_t id) const;

  // Calls `use` with each registration, in the order of their numbers, without holding a lock.
  // Other threads may add and remove registrations meanwhile. A registration that is added
  // meanwhile is called, too, since its number is greater.
  void for_each(const std::function<void(LifetimeCall&)>& use);

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;  // a call has ended
  std::map<uint64_t, LifetimeCall> calls_;
  uint64_t last_id_ = 0;
  uint64_t calling_ = 0;  // the number of the registration that is being called; 0: none
};

}  // namespace leat
