#include "scheduler/runtime/executor.h"

#include <pthread.h>

#include <array>
#include <tuple>
#include <vector>

#include "devices/base/patience.h"
#include "scheduler/runtime/at_work.h"

namespace leat {

namespace {

constexpr size_t kMostWaits = 1 + std::tuple_size_v<decltype(Awaited::others)>;
constexpr size_t kNoWait = kMostWaits;

}  // namespace

// Runs and the right to advance them, which one thread has at a time.
struct Executor::Core {
  // `ready` and `advancing` say what is yet to be done with a run.
  struct Place {
    // The timelines that the executor has a callback on, as many as a run waits for at a time.
    struct Registered {
      Timeline* timeline = nullptr;
      uint64_t value = 0;
    };
    std::array<Registered, kMostWaits> registered;
    bool ready = false;
    bool advancing = false;
    bool busy = false;  // not idle since it was last woken
    Awaited awaited;    // what it waits for; no timeline: nothing
  };
  std::mutex mutex;
  std::condition_variable work, stopped_advancing;
  std::map<Run*, Place> places;
  std::vector<Run*> queue;  // for the driver; first come, first advanced
  bool driving = false;     // a thread advances a run
  bool stop = false;
  Neighbours neighbours;            // `ready` is queue.size(), for a look without the lock
  std::atomic<bool> wanted{false};  // the driver has something to do: for a look without the lock
  std::atomic<int> notifying{0};    // threads in tell_driver() without the lock

  bool driver_is_wanted() const { return stop || (!queue.empty() && !driving); }
  void set_busy(Place& place, bool busy) {
    if (place.busy != busy) neighbours.busy.fetch_add(busy ? 1 : size_t{0} - 1);
    place.busy = busy;
  }
  // The run's wait; null if it runs, is to run or is idle.
  const Awaited* awaited(Run& run) const {
    const auto it = places.find(&run);
    return it == places.end() || it->second.ready ? nullptr : &it->second.awaited;
  }
  void queue_changed() {
    neighbours.ready.store(queue.size(), std::memory_order_relaxed);
    wanted.store(driver_is_wanted(), std::memory_order_relaxed);
  }
  void tell_driver(std::unique_lock<std::mutex>& lock);
  void wake(Run* run, size_t fired);
  void drive(std::unique_lock<std::mutex>& lock, Run* run, Place& place, bool cheaply);
  void register_waits(std::unique_lock<std::mutex>& lock, Run* run, Place& place,
                      const Awaited& awaited);
  void register_wait(std::unique_lock<std::mutex>& lock, Run* run, Place& place, size_t wait,
                     Timeline& timeline, uint64_t value);
};

// Small and trivial, so that a std::function of it allocates nothing. The low bits of the run's
// address are the number of the wait.
struct Executor::Waker {
  static_assert(alignof(Run) > kMostWaits);
  Core* core;
  uintptr_t run_and_wait;
  void wake() const {
    constexpr uintptr_t kWait = alignof(Run) - 1;
    core->wake(reinterpret_cast<Run*>(run_and_wait & ~kWait), run_and_wait & kWait);
  }
};

// Unlocks: the driver would wake up only to wait for the lock.
void Executor::Core::tell_driver(std::unique_lock<std::mutex>& lock) {
  queue_changed();
  if (!driver_is_wanted()) return;
  notifying.fetch_add(1);
  lock.unlock();
  work.notify_one();
  notifying.fetch_sub(1);
}

// `wait`: the one of the run's waits that is over; kNoWait if the run got more to do.
void Executor::Core::wake(Run* run, size_t wait) {
  std::unique_lock lock(mutex);
  const auto it = places.find(run);
  if (it == places.end()) return;
  Place& place = it->second;
  // A timeline calls a callback once, so the next wait needs a new one.
  const bool fired = wait != kNoWait;
  if (fired) place.registered[wait].timeline = nullptr;
  run->recorder().woken();
  // The run is in the queue already, and no thread has looked at it since.
  if (place.ready) return;
  place.ready = true;
  set_busy(place, true);
  if (place.advancing) return;
  // This thread advances the run if no other one does, and if it is not stepping a run itself: a
  // kernel that signals a timeline must not run another program's kernels inside its own.
  if (fired && !driving && queue.empty() && run->has_cheap_entries() && !AtWork::here()) {
    drive(lock, run, place, true);
  } else {
    queue.push_back(run);
  }
  tell_driver(lock);
}

// Advances a ready run until it waits or is idle, or only as far as is cheap.
// REQUIRES: no thread is driving.
void Executor::Core::drive(std::unique_lock<std::mutex>& lock, Run* run, Place& place,
                           bool cheaply) {
  driving = true;
  wanted.store(false, std::memory_order_relaxed);
  neighbours.ready.store(queue.size(), std::memory_order_relaxed);
  place.advancing = true;
  while (place.ready) {
    place.ready = false;
    place.awaited = {};
    lock.unlock();
    Awaited awaited;
    const Advanced advanced = run->advance(awaited, &neighbours, cheaply);
    lock.lock();
    // The run has more to do, but not here: it goes to the end of the queue.
    if (advanced == Advanced::stops) {
      place.ready = true;
      break;
    }
    if (advanced == Advanced::all && !place.ready) set_busy(place, false);
    // The wait may be over before the callback is registered. Then the callback comes at once, sets
    // `ready`, and the loop goes on.
    if (advanced == Advanced::waits) register_waits(lock, run, place, awaited);
    if (!cheaply && !queue.empty()) break;  // others first
  }
  place.advancing = false;
  driving = false;
  if (place.ready) queue.push_back(run);
  stopped_advancing.notify_all();
  queue_changed();
}

void Executor::Core::register_waits(std::unique_lock<std::mutex>& lock, Run* run, Place& place,
                                    const Awaited& awaited) {
  place.awaited = awaited;
  register_wait(lock, run, place, 0, *awaited.timeline, awaited.value);
  for (size_t i = 0; i < awaited.others.size(); ++i) {
    const Awaited::Other& other = awaited.others[i];
    if (other.timeline) register_wait(lock, run, place, 1 + i, *other.timeline, other.value);
  }
}

void Executor::Core::register_wait(std::unique_lock<std::mutex>& lock, Run* run, Place& place,
                                   size_t wait, Timeline& timeline, uint64_t value) {
  Place::Registered& registered = place.registered[wait];
  if (registered.timeline == &timeline && registered.value == value) return;
  registered = {&timeline, value};
  // The callback may come at once, on this thread: never under the lock. The run cannot be removed
  // before advancing is false, so its timelines live.
  lock.unlock();
  const Waker waker{this, reinterpret_cast<uintptr_t>(run) | wait};
  timeline.when(value, [waker](const Status&) { waker.wake(); });
  lock.lock();
}

Executor::Executor(cpu::Pool& pool, std::string name)
    : pool_(pool), core_(std::make_unique<Core>()) {
  thread_ = std::thread([this, name = std::move(name)] {
    pthread_setname_np(pthread_self(), name.substr(0, 15).c_str());
    loop();
  });
}

Executor::~Executor() {
  {
    std::unique_lock lock(core_->mutex);
    core_->stop = true;
    core_->tell_driver(lock);
  }
  thread_.join();
  while (core_->notifying.load() > 0) std::this_thread::yield();
}

void Executor::add(Run& run) {
  std::lock_guard lock(core_->mutex);
  core_->places[&run];
}

void Executor::wake(Run& run) { core_->wake(&run, kNoWait); }

void Executor::remove(Run& run) {
  std::unique_lock lock(core_->mutex);
  const auto it = core_->places.find(&run);
  if (it == core_->places.end()) return;
  // A callback that comes after this finds no place, and returns.
  core_->stopped_advancing.wait(lock, [&] { return !core_->places[&run].advancing; });
  core_->set_busy(it->second, false);
  core_->places.erase(it);
  std::erase(core_->queue, &run);
  core_->queue_changed();
}

std::string Executor::waits_for(Run& run) {
  std::lock_guard lock(core_->mutex);
  const Awaited* awaited = core_->awaited(run);
  return awaited ? run.waits_for(*awaited) : "";
}

bool Executor::waits_for_peer(Run& run) {
  std::lock_guard lock(core_->mutex);
  const Awaited* awaited = core_->awaited(run);
  if (!awaited) return false;
  const RunSight::State state = run.sight(awaited).state;
  return state == RunSight::State::receives || state == RunSight::State::sends;
}

RunSight Executor::sight(Run& run) {
  std::lock_guard lock(core_->mutex);
  return run.sight(core_->awaited(run));
}

void Executor::loop() {
  Core& core = *core_;
  std::unique_lock lock(core.mutex);
  while (true) {
    // The next work is usually about to come: spin for a moment before parking.
    if (!core.driver_is_wanted()) {
      lock.unlock();
      Patience& patience = step_patience();
      while (!core.wanted.load(std::memory_order_relaxed) && patience.look_again()) {
      }
      patience.progress();
      lock.lock();
      core.work.wait(lock, [&] { return core.driver_is_wanted(); });
    }
    if (core.stop) return;
    Run* run = core.queue.front();
    core.queue.erase(core.queue.begin());
    core.drive(lock, run, core.places[run], false);
  }
}

}  // namespace leat
