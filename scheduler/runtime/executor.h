// The executor of a device: it advances the runs that can go on, one after the other, and registers
// for what the other runs wait for.
//
// The thread that completes a wait, such as the io thread on which a value arrives, advances the
// run itself as far as the work is cheap, because waking another thread would take longer. The
// executor's own thread, the driver, does the rest. Two threads never advance runs of one executor
// at the same time.
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

// Owns the driver; borrows its runs, each from add() to remove().
//
// Threads: any, for all members.
class Executor {
 public:
  // `pool` outlives the executor. `name` is the driver's name, of which systems show 15 characters.
  Executor(cpu::Pool& pool, std::string name);
  // REQUIRES: every run is removed, and no thread signals a timeline that one of them waited for,
  // now or later.
  ~Executor();

  // Adds a run; nothing happens before its first wake().
  void add(Run& run);
  // Tells the executor that the run may have something to do: its limit rose, or it failed.
  void wake(Run& run);
  // Takes the run out. When this returns, no thread advances the run, now or later.
  void remove(Run& run);
  // Describes for people what the run waits for now; "" if it is running or idle.
  std::string waits_for(Run& run);
  // True if that is a value from another partition, or room for one there.
  bool waits_for_peer(Run& run);

  // The state of the run now.
  RunSight sight(Run& run);

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
