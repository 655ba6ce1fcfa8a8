// What drives a device: it advances the cursors of the runs that can go on, one after the other,
// and lets those that wait be woken by what they wait for.
//
// Whoever completes a wait, the io thread with a value that came, goes on with the cursor itself as
// far as the work is cheap: waking another thread takes longer than that. The executor's own
// thread, the driver, does the rest. Never do two threads advance cursors of one executor at once.
#pragma once

#include <atomic>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "devices/cpu/pool.h"
#include "scheduler/runtime/run.h"

namespace leat {

// Threads: any, for all members.
class Executor {
 public:
  // `pool` outlives the executor. The thread is named `name` (15 characters are shown).
  Executor(cpu::Pool& pool, std::string name);
  // REQUIRES: every run was removed, and the timelines that they waited for are not being signalled
  // and never will be again.
  ~Executor();

  // Adds a run; nothing happens before its first wake().
  void add(Run& run);
  // The run may have something to do: its limit rose, or it failed.
  void wake(Run& run);
  // Returns when the run is not being advanced and never will be again.
  void remove(Run& run);
  // What the run waits for now, for people: "" if it is running or idle.
  std::string waits_for(Run& run);
  // As Run::waits_for_peer(); false if it is running or idle.
  bool waits_for_peer(Run& run);

  cpu::Pool& pool() { return pool_; }

 private:
  struct Core;
  struct Waker;
  void loop();

  cpu::Pool& pool_;
  std::unique_ptr<Core> core_;
  std::thread thread_;
};

}  // namespace leat
