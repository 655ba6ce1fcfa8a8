// Records what the threads of a run do in some of its steps: which instruction each of them runs
// and when, what the run waits for, and when it was woken. `leat trace` and `leat explain` show it.
//
// Each thread writes to a list of its own, without locks and without allocating. While nothing is
// recorded, a turn costs one look at a number, or a tile does where threads share a turn's tiles.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <limits>
#include <memory>
#include <mutex>
#include <vector>

#include "ops/graph/op.h"

namespace leat {

// A piece of time of one thread.
struct StepEvent {
  enum class Kind : uint8_t {
    kernel,   // runs tiles of the instruction
    send,     // pushes its value to the channel
    receive,  // takes its value, which is there
    retire,   // gives the slot of its value back
    fetch,    // copies its value out
    wait,     // the run could not go on without the instruction's value, room or kernel; without
              // an instruction, before its device had done what it was given
    wake,     // from the moment that ended the wait until the run went on
    limit,    // every allowed step was done
    flush,    // hands the values that were sent together to the transport
  };
  int64_t begin = 0, end = 0;  // in nanoseconds of this machine's steady clock
  uint64_t turn = 0;
  uint32_t instruction = kNone;  // of the run's partition; kNone: none in particular
  uint32_t pieces = 1;           // tiles that the event covers
  Kind kind = Kind::kernel;
  uint16_t thread = 0;  // 0: the one that advances the run
};

// The content of a recorder.
struct StepEvents {
  uint64_t first = 0, end = 0;    // the turns that it was to record
  std::vector<StepEvent> events;  // of each thread in the order of their ends
  uint64_t dropped = 0;           // events for which a list had no room
  // Events are missing in this turn, and in those after it. Above every turn if none is missing.
  uint64_t lost_from = std::numeric_limits<uint64_t>::max();
};

// Owned by its run. Threads: as each member says.
class StepRecorder {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr size_t kMost = size_t{1} << 15;  // events of a thread

  explicit StepRecorder(size_t threads) : threads_(threads), lists_(new List[threads]) {}

  static int64_t now() {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch())
        .count();
  }

  // Records the turns [first, end), and forgets what was recorded before. Threads: any.
  void start(uint64_t first, uint64_t end);
  // Stops, and returns what there is. Threads: any.
  StepEvents stop();

  // True if a thread in this turn is to call add(). Threads: any.
  bool wants(uint64_t turn) const { return turn < end_.load(std::memory_order_relaxed); }
  // Adds an event that ends now. Threads: `thread`, of which there is one at a time.
  void add(size_t thread, StepEvent::Kind kind, uint32_t instruction, uint64_t turn,
           int64_t begin) {
    add(thread, kind, instruction, turn, begin, now());
  }
  void add(size_t thread, StepEvent::Kind kind, uint32_t instruction, uint64_t turn, int64_t begin,
           int64_t end, uint32_t pieces = 1);

  // The run does nothing from now on: it waits for the instruction, or for a higher limit.
  // Threads: the one that advances the run, also for the next one.
  void begin_wait(StepEvent::Kind kind, uint32_t instruction, uint64_t turn) {
    if (wants(turn)) waiting_ = {now(), 0, turn, instruction, 1, kind, 0};
  }
  // The run goes on.
  void end_wait() {
    if (waiting_.begin != 0) add_wait();
  }
  // The value that the run waits for is there. Threads: any.
  void woken() {
    if (wants(0)) woken_.store(now(), std::memory_order_relaxed);
  }

 private:
  // An event in a list. Further tiles of the last event are added to it while others read it.
  struct Slot {
    StepEvent event;  // but for these two
    std::atomic<int64_t> end{0};
    std::atomic<uint32_t> pieces{0};
  };
  // The events of one thread, which alone writes them. A reader sees those below `count`.
  struct alignas(64) List {
    std::unique_ptr<Slot[]> slots;       // kMost; made by the first start()
    std::atomic<uint64_t> recording{0};  // the recording that the events are of
    std::atomic<size_t> count{0};
    std::atomic<uint64_t> dropped{0};
    std::atomic<uint64_t> lost_from{0};  // the turn of the first event that was dropped
  };
  static void push(List& list, const StepEvent& event);
  static void read(const List& list, StepEvents& all);
  void add_wait();

  const size_t threads_;
  const std::unique_ptr<List[]> lists_;
  std::atomic<uint64_t> end_{0};  // 0: nothing is recorded
  std::atomic<uint64_t> first_{0};
  std::atomic<uint64_t> recording_{0};  // counts the calls of start()
  StepEvent waiting_;                   // a wait that has begun; begin 0: none
  std::atomic<int64_t> woken_{0};       // the time of the last woken()
  std::mutex mutex_;                    // of start() and stop()
  uint64_t last_end_ = 0;               // of the last recording
};

}  // namespace leat
