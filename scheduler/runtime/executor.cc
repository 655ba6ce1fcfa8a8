#include "scheduler/runtime/executor.h"

#include <pthread.h>

#include <vector>

namespace leat {

// A run's place in the executor. `ready` and `advancing` say what the driver has yet to do with it.
struct Executor::Core {
  struct Place {
    // Where a callback of ours is waiting; one is enough.
    Timeline* registered = nullptr;
    uint64_t registered_value = 0;
    bool ready = false;
    bool advancing = false;
    bool busy = false;  // not idle since it was last woken
    Awaited awaited;    // what it waits for; no timeline: nothing
  };
  std::mutex mutex;
  std::condition_variable changed;
  std::map<Run*, Place> places;
  std::vector<Run*> queue;  // first come, first advanced
  bool stop = false;
  Neighbours neighbours;  // `ready` is queue.size(), for a look without the lock

  void push(Run* run) {
    queue.push_back(run);
    neighbours.ready.store(queue.size(), std::memory_order_relaxed);
  }
  void set_busy(Place& place, bool busy) {
    if (place.busy != busy) neighbours.busy.fetch_add(busy ? 1 : size_t{0} - 1);
    place.busy = busy;
  }
  // `fired`: by what the run waited for; else by somebody who gave it more to do.
  void wake(Run* run, bool fired) {
    std::lock_guard lock(mutex);
    const auto it = places.find(run);
    if (it == places.end()) return;
    if (fired) it->second.registered = nullptr;
    if (it->second.ready) return;
    it->second.ready = true;
    set_busy(it->second, true);
    if (!it->second.advancing) {
      push(run);
      changed.notify_all();
    }
  }
};

// Small and trivial, so that a std::function of it allocates nothing.
struct Executor::Waker {
  Core* core;
  Run* run;
};

Executor::Executor(cpu::Pool& pool, std::string name)
    : pool_(pool), core_(std::make_unique<Core>()) {
  thread_ = std::thread([this, name = std::move(name)] {
    pthread_setname_np(pthread_self(), name.substr(0, 15).c_str());
    loop();
  });
}

Executor::~Executor() {
  {
    std::lock_guard lock(core_->mutex);
    core_->stop = true;
    core_->changed.notify_all();
  }
  thread_.join();
}

void Executor::add(Run& run) {
  std::lock_guard lock(core_->mutex);
  core_->places[&run];
}

void Executor::wake(Run& run) { core_->wake(&run, false); }

void Executor::remove(Run& run) {
  std::unique_lock lock(core_->mutex);
  const auto it = core_->places.find(&run);
  if (it == core_->places.end()) return;
  core_->changed.wait(lock, [&] { return !core_->places[&run].advancing; });
  core_->set_busy(it->second, false);
  core_->places.erase(it);
  std::erase(core_->queue, &run);
  core_->neighbours.ready.store(core_->queue.size(), std::memory_order_relaxed);
}

std::string Executor::waits_for(Run& run) {
  std::lock_guard lock(core_->mutex);
  const auto it = core_->places.find(&run);
  return it == core_->places.end() ? "" : run.waits_for(it->second.awaited);
}

void Executor::loop() {
  Core& core = *core_;
  std::unique_lock lock(core.mutex);
  while (true) {
    core.changed.wait(lock, [&] { return core.stop || !core.queue.empty(); });
    if (core.stop) return;
    Run* run = core.queue.front();
    core.queue.erase(core.queue.begin());
    core.neighbours.ready.store(core.queue.size(), std::memory_order_relaxed);
    Core::Place* place = &core.places[run];
    place->ready = false;
    place->advancing = true;
    place->awaited = {};
    lock.unlock();

    Awaited awaited;
    bool idle = run->advance(awaited, &core.neighbours);
    // Whatever it waits for is usually about to come: give it a moment before parking.
    for (cpu::Spinner spinner; !idle && awaited.timeline &&
                               core.neighbours.ready.load(std::memory_order_relaxed) == 0 &&
                               spinner.spin();) {
      if (awaited.timeline->reached(awaited.value) || awaited.timeline->failed()) {
        idle = run->advance(awaited, &core.neighbours);
        spinner = cpu::Spinner();
      }
    }

    lock.lock();
    place->awaited = idle ? Awaited() : awaited;
    if (idle && !place->ready) core.set_busy(*place, false);
    if (!idle && !awaited.timeline) place->ready = true;  // it gave way, and comes last now
    if (idle || !awaited.timeline ||
        (place->registered == awaited.timeline && place->registered_value == awaited.value)) {
      place->advancing = false;
      if (place->ready) core.push(run);
    } else {
      place->registered = awaited.timeline;
      place->registered_value = awaited.value;
      // The callback may come at once, on this thread: never under the lock. The run cannot be
      // removed before advancing is false, so its timelines live.
      lock.unlock();
      awaited.timeline->when(awaited.value, [waker = Waker{&core, run}](const Status&) {
        waker.core->wake(waker.run, true);
      });
      lock.lock();
      place->advancing = false;
      if (place->ready) core.push(run);
    }
    core.changed.notify_all();
  }
}

}  // namespace leat
