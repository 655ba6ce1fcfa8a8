// The queue of news about a worker's runners for the master. It also tells the sender when to stop:
// when the membership has ended or the worker stops.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "daemon/jobs/runner_end.h"
#include "devices/base/status.h"

namespace leat {

// Lines that a runner wrote, or its end, or both: then the lines are its last.
struct WorkerOutput {
  std::string job;
  uint64_t assembly = 0;
  std::vector<std::string> lines;
  RunnerEnd end = {};  // `how` is empty while the runner lives

  // The size of the lines.
  size_t bytes() const;
};

// Threads: any; next() and told_drain() belong to the thread that talks to the master.
class NewsOutbox {
 public:
  // The master must be told that this worker drains.
  struct Drain {};
  // The next news for the master, or the reason why there will be none.
  using Next = std::variant<WorkerOutput, Drain, Status>;

  // Queues an output for the master, in pieces of at most 64 KiB of lines, or one longer line.
  // Drops it if the queued lines would exceed 4 MiB; the next output then contains the number of
  // dropped lines.
  void add(WorkerOutput output);
  // Asks the sender to tell the master that this worker drains. Returns when the master knows or
  // cannot be told, at the latest after `patience`.
  void drain(std::chrono::milliseconds patience);

  // The worker stops: next() returns the remaining news for at most a second.
  void stop();
  bool stopping() const;
  // Blocks for this time. Returns false at once if the worker stops.
  bool pause(std::chrono::milliseconds time);

  // An attempt to become a member begins. `fresh`: the worker is new to the master, so the queued
  // news are dropped.
  void begin(bool fresh);
  // The membership has ended. Only the first cause counts, until begin().
  void end(const Status& cause);
  // Blocks until there is news for the master. Combines queued lines of one runner, and adds its
  // end to its last lines.
  Next next();
  // The sender has told the master that this worker drains, or the master has refused.
  void told_drain();

 private:
  // These two need the mutex. split() queues pieces that fit into a message each; take() joins as
  // many pieces of one runner as fit into the next message.
  void split(WorkerOutput output);
  WorkerOutput take();

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;
  std::optional<std::chrono::steady_clock::time_point> leave_by_;  // set once the worker stops
  bool drains_ = false;                                            // and the master must be told
  bool drain_told_ = false;
  std::optional<Status> ended_;
  std::deque<WorkerOutput> news_;
  size_t bytes_ = 0;  // of the lines in news_
  uint64_t dropped_lines_ = 0;
};

}  // namespace leat
