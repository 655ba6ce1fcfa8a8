// The requests that the table of jobs has not answered yet: tickets, and those who watch a job.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <future>
#include <list>
#include <map>
#include <memory>
#include <string>

#include "daemon/jobs/events.h"
#include "devices/base/status.h"

namespace leat {

using AnswerJob = std::function<void(Result<JobView>)>;

// Requests that the table answers with the number of their ticket.
// Threads: one.
class Tickets {
 public:
  // Returns the number of a new ticket. REQUIRES: not settling().
  uint64_t open(AnswerJob done);
  void answer(Answer answer);
  // No more tickets are opened. `settled` is set when all tickets are answered.
  void settle(std::shared_ptr<std::promise<void>> settled);
  bool settling() const { return settled_ != nullptr; }
  // Answers all tickets with this status.
  void cancel(const Status& status);

 private:
  std::map<uint64_t, AnswerJob> open_;
  uint64_t last_ = 0;
  std::shared_ptr<std::promise<void>> settled_;
};

// Requests that are answered when the view of a job changes.
// Threads: one.
class Watchers {
 public:
  using Find = std::function<Result<JobView>(const std::string& id)>;
  struct Watcher {
    std::string id;
    uint64_t seen = 0;  // the version of the view that the watcher has
    std::chrono::steady_clock::time_point deadline;
    AnswerJob done;
  };

  // `find` returns the view of a job.
  explicit Watchers(Find find) : find_(std::move(find)) {}

  // Answers at once if the watcher has not seen the job's view.
  void add(Watcher watcher);
  // Answers those whose job's view is newer than the one they have seen. Does nothing if it was
  // called with this version of the table before.
  void answer(uint64_t version);
  // The same, whatever the version, and answers those whose deadline is over.
  void answer_late();
  // Answers all with this status.
  void cancel(const Status& status);

 private:
  bool answered(Watcher& watcher) const;

  const Find find_;
  std::list<Watcher> watchers_;
  uint64_t version_ = 0;
};

}  // namespace leat
