// The logs of all jobs, and the thread "logs" that writes them and answers the calls that wait for
// a line.
#pragma once

#include <chrono>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "daemon/base/task_thread.h"
#include "daemon/master/job_log.h"
#include "devices/base/clock.h"
#include "devices/base/log.h"

namespace leat {

// <folder>/<job>/log.txt. Threads: any; nothing but page() waits for a disk.
class JobLogs {
 public:
  using Done = std::function<void(Result<LogPage>)>;

  JobLogs(std::string folder, uint64_t max_bytes, const Clock& clock, Logger log);
  ~JobLogs() { stop(); }
  // Writes the lines that are still queued. Calls that wait for a line fail with `cancelled`, as do
  // all later ones.
  void stop();

  // Adds lines of `worker`, with the current time. Calls `written` once the lines are written or
  // have failed to be; failures are counted in a warning. Lines added after end() are ignored.
  void add(const std::string& job, const std::string& worker, std::vector<std::string> lines,
           std::function<void()> written = nullptr);
  // No line follows: all pages are complete from the last line on.
  void end(const std::string& job);
  // Forgets the job's log. The caller removes its file.
  void remove(const std::string& job);

  Result<LogPage> page(const std::string& job, uint64_t from, size_t most) const;
  // As page(); if there is no line and more may come, waits for one until `deadline`.
  void wait(const std::string& job, uint64_t from, std::chrono::steady_clock::time_point deadline,
            Done done);

 private:
  struct Waiting {
    std::string job;
    uint64_t from = 0;
    std::chrono::steady_clock::time_point deadline;
    Done done;
  };
  // The log of a job, which is made when it is first asked for. Moves it to the front of recent_,
  // and closes the file of the log that falls off the end.
  std::shared_ptr<JobLog> log_of(const std::string& job) const;
  // Drops the log from the tables. REQUIRES: the mutex is held.
  void forget(const std::string& job);
  // On the thread. Lines of an ended log are ignored: a page that said that it is complete must
  // stay so.
  void write(const std::string& job, const std::vector<LogLine>& lines);
  // Answers those that wait for this job (all, if it is empty) and can be answered.
  void answer(const std::string& job);
  bool answer(Waiting& waiting);

  const std::string folder_;
  const uint64_t max_bytes_;
  const Clock& clock_;
  const Logger logger_;
  mutable std::mutex mutex_;
  mutable std::map<std::string, std::shared_ptr<JobLog>> logs_;
  mutable std::list<std::shared_ptr<JobLog>> recent_;  // those whose files may be open
  std::set<std::string> ended_;                        // jobs whose logs get no more lines
  std::list<Waiting> waiting_;                         // of the thread, as what follows
  uint64_t lost_ = 0;                                  // lines, since that was said
  std::chrono::steady_clock::time_point lost_told_{};
  TaskThread thread_;  // last: it uses the rest
};

}  // namespace leat
