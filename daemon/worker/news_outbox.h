// The news of a worker's runners on their way to the master, and the reasons to stop telling it:
// the membership has ended, or the worker stops.
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

// Lines that a runner wrote, or how it ended, or both: then the lines are its last.
struct WorkerOutput {
  std::string job;
  uint64_t assembly = 0;
  std::vector<std::string> lines;
  RunnerEnd end = {};  // `how` is empty while the runner lives

  size_t bytes() const;
};

// Threads: any; next() and told_drain() belong to the thread that talks to the master.
class NewsOutbox {
 public:
  // The master is to be told that this worker drains.
  struct Drain {};
  // The next thing to tell the master, or why there is nothing more to tell.
  using Next = std::variant<WorkerOutput, Drain, Status>;

  // Keeps it for the master. Lines beyond 4 MiB are dropped; their number is told with the next
  // ones.
  void add(WorkerOutput output);
  // Wants the master told that this worker drains. Returns when it knows or cannot be told, at the
  // latest after `patience`.
  void drain(std::chrono::milliseconds patience);

  // The worker stops: what is left is told for a second at most.
  void stop();
  bool stopping() const;
  // Waits. False if the worker stops.
  bool pause(std::chrono::milliseconds time);

  // A try to become a member begins. `fresh`: as a new worker, with nothing to tell of an earlier
  // life.
  void begin(bool fresh);
  // The membership has ended. The first cause stays until begin().
  void end(const Status& cause);
  // Blocks until there is something to tell. Lines of one runner come together, and its end comes
  // with its last lines.
  Next next();
  // The master was told that this worker drains, or did not take it.
  void told_drain();

 private:
  WorkerOutput take();

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;
  std::optional<std::chrono::steady_clock::time_point> leave_by_;  // once it stops
  bool drains_ = false;                                            // and the master is to be told
  bool drain_told_ = false;
  std::optional<Status> ended_;
  std::deque<WorkerOutput> news_;
  size_t bytes_ = 0;  // of the lines of news_
  uint64_t dropped_lines_ = 0;
};

}  // namespace leat
