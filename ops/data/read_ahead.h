// Reading ahead: a reader of batches knows which rows the next steps take, and has the files bring
// them while steps compute. Only the files' caches learn of it, so that it changes no bit.
//
// The depth, in steps, tunes itself. It is 0 while no thread sleeps for rows, as with data that are
// in memory; then nothing is asked for, and there is no thread.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace leat {

// The rule of the depth. A step that waited for rows doubles it; many steps in a row that did not
// make it less by a quarter. If that was too much, the next step that waits gives one step back,
// and the next descent comes twice as late. Steps that were on the way when the depth grew say
// nothing about it. Threads: one at a time.
class ReadAheadDepth {
 public:
  static constexpr int64_t kCalmSteps = 64, kMostCalmSteps = 4096;
  // `most` bounds the depth: 0 keeps it at 0.
  explicit ReadAheadDepth(int64_t most) : most_(most) {}
  // A step has its rows; it waited for some, or for none.
  void step(bool waited);
  int64_t depth() const { return depth_; }

 private:
  const int64_t most_;
  int64_t depth_ = 0;
  int64_t calm_ = 0;                  // steps that did not wait, since the last change
  int64_t calm_before_ = kCalmSteps;  // steps that do not wait, before it descends
  int64_t unsettled_ = 0;             // steps that began before the last rise took effect
  bool descended_ = false;            // by the last change
};

// The rows that one reader asks for ahead of its steps. Threads: begins() and waited() from those
// that read; depth() from any. It ends its own threads when it is destroyed, each after the row
// that it is asking for.
class ReadAhead {
 public:
  struct Limits {
    int64_t most_steps = 0;  // of the depth
    int64_t rows = 1;        // of a batch
    int threads = 1;         // that ask; more than one helps where each row takes a round trip
  };
  // `ask` has the rows of a batch from `begin` to `end` brought. Threads: the object's own, several
  // at once.
  using Ask = std::function<void(int64_t batch, int64_t begin, int64_t end)>;
  ReadAhead(Limits limits, Ask ask);
  ~ReadAhead();
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;

  // A thread begins to read rows of the batch. The first call for a batch behind the last one ends
  // the step before; a batch that is elsewhere, as after a resume, begins anew.
  void begins(int64_t batch);
  // A thread slept while it read rows of the last batch.
  void waited() { waited_.store(true, std::memory_order_relaxed); }
  int64_t depth() const { return shown_depth_.load(std::memory_order_relaxed); }

 private:
  void work();

  const Limits limits_;
  const Ask ask_;
  std::atomic<int64_t> newest_{-1};  // the last batch that began
  std::atomic<bool> waited_{false};
  std::atomic<int64_t> shown_depth_{0};
  std::mutex mutex_;
  std::condition_variable wanted_more_;
  ReadAheadDepth depth_;
  // Rows are numbered through all batches: those below `asked_` have been asked for, or need not
  // be, and those below `wanted_` are to be.
  int64_t asked_ = 0, wanted_ = 0;
  std::atomic<bool> ends_{false};
  std::vector<std::thread> threads_;
};

}  // namespace leat
