// The changes in a cluster, as events that any number of streams read. The source is asked once
// for all of them, and each event's text is made once.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/status/status_source.h"

namespace leat {

// A change: the state of a job or of a worker after it.
struct StatusEvent {
  std::string job;   // the id of the job; "" if the event is about a worker
  std::string text;  // as event_text() makes it
};

// Threads: one. All calls are on the server's thread.
class StatusFeed {
 public:
  // `source` outlives it. The feed keeps the last `most_events` events, and asks the source at most
  // once in `pause`.
  explicit StatusFeed(const StatusSource& source, size_t most_events = 4096,
                      std::chrono::milliseconds pause = std::chrono::milliseconds(100));

  // Asks the source for changes, if the last time is long enough ago.
  void update();

  // Events are numbered from 0 in the order in which they came. The feed has those from first() to
  // end() - 1.
  uint64_t first() const { return first_; }
  uint64_t end() const { return first_ + events_.size(); }
  // REQUIRES: first() <= number < end().
  const StatusEvent& at(uint64_t number) const { return events_[number - first_]; }

  // Returns the events of all jobs whose version is higher than `version`, and of all workers, as
  // they are now. The jobs are in the order of their submission.
  std::vector<StatusEvent> snapshot(uint64_t version) const;

 private:
  void update_jobs();
  void update_nodes();

  const StatusSource& source_;
  const size_t most_events_;
  const std::chrono::milliseconds pause_;
  std::chrono::steady_clock::time_point asked_{};
  uint64_t jobs_version_ = 0;                 // up to which the events have all changes of jobs
  std::map<std::string, std::string> nodes_;  // the last change of each worker, by its name
  uint64_t first_ = 0;
  std::deque<StatusEvent> events_;
};

}  // namespace leat
