// The base of a simulation: virtual time, one source of random numbers, and processes. Events
// happen in the order of their times, and events of one time in the order in which they were
// requested, so that a seed gives the same history every time.
//
// Threads: one.
#pragma once

#include <cstdint>
#include <functional>
#include <queue>
#include <random>
#include <string>
#include <vector>

#include "devices/base/clock.h"
#include "devices/base/text.h"

namespace leat::sim {

using Ms = int64_t;  // virtual time
using Task = std::function<void()>;

// A process, which can be killed, started again and stopped. Events of one life do not happen in
// the next one; events that fall due while it is stopped happen afterwards.
struct Process {
  std::string name;
  uint64_t life = 0;
  bool alive = false;
  Ms stopped_until = 0;
};

// The clock, the random numbers and the queue of events.
class World {
 public:
  World(uint64_t seed, bool traces) : random_(seed), traces_(traces) {}

  Ms now() const { return now_; }
  ManualClock& clock() { return clock_; }

  uint64_t pick(uint64_t below) { return random_() % below; }
  Ms between(Ms least, Ms most) { return least + static_cast<Ms>(pick(most - least + 1)); }
  bool chance(uint64_t percent) { return pick(100) < percent; }

  void after(Ms delay, Task task) {
    events_.push({now_ + delay, ++last_, nullptr, 0, std::move(task)});
  }
  void after(const Process& process, Ms delay, Task task) {
    events_.push({now_ + delay, ++last_, &process, process.life, std::move(task)});
  }
  // Runs the next event. False if there are no more.
  bool step();
  uint64_t steps() const { return steps_; }

  template <typename... Parts>
  void trace(const Parts&... parts) {
    if (traces_) lines_.push_back(cat(now_, " ms: ", parts...));
  }
  const std::vector<std::string>& lines() const { return lines_; }

  // Records the first invariant that was broken; what_broke() is "" if none was.
  template <typename... Parts>
  void broken(const Parts&... parts) {
    if (!broken_.empty()) return;
    broken_ = cat(parts...);
    trace("BROKEN: ", broken_);
  }
  const std::string& what_broke() const { return broken_; }

 private:
  struct Event {
    Ms at;
    uint64_t order;
    const Process* process;
    uint64_t life;
    mutable Task task;
    bool operator<(const Event& other) const {
      return at != other.at ? at > other.at : order > other.order;
    }
  };

  std::mt19937_64 random_;
  const bool traces_;
  ManualClock clock_;
  Ms now_ = 0;
  uint64_t last_ = 0, steps_ = 0;
  std::priority_queue<Event> events_;
  std::vector<std::string> lines_;
  std::string broken_;
};

}  // namespace leat::sim
