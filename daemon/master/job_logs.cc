#include "daemon/master/job_logs.h"

#include <utility>

#include "daemon/jobs/events.h"
#include "devices/base/counted.h"
#include "devices/base/text.h"

namespace leat {
namespace {

// The thread looks this often for calls whose deadline is over.
constexpr auto kTick = std::chrono::milliseconds(100);
// On a full disk each write fails; the master's own log has one warning about it in this time.
constexpr auto kBetweenLosses = std::chrono::seconds(10);
constexpr size_t kPageLines = 10'000;
// So many logs keep their files open. Without a limit, each job that was ever looked at would keep
// a descriptor.
constexpr size_t kOpenFiles = 64;

}  // namespace

JobLogs::JobLogs(std::string folder, uint64_t max_bytes, const Clock& clock, Logger log)
    : folder_(std::move(folder)),
      max_bytes_(max_bytes),
      clock_(clock),
      logger_(std::move(log)),
      thread_("logs", kTick, [this] { answer(""); }) {}

// Once the thread has ended, `waiting_` belongs to this one.
void JobLogs::stop() {
  thread_.stop();
  for (Waiting& each : std::exchange(waiting_, {})) each.done(cancelled("the master is stopping"));
}

void JobLogs::add(const std::string& job, const std::string& worker, std::vector<std::string> texts,
                  std::function<void()> written) {
  std::vector<LogLine> lines;
  // The lines get the time at which they came, however long they wait in the queue of the thread.
  const int64_t now = moment_of(clock_).wall_ms;
  for (std::string& text : texts) lines.push_back({now, worker, std::move(text)});
  (void)thread_.post([this, job, lines = std::move(lines), written = std::move(written)] {
    // `written` is also called for lines that could not be written: a worker that waits for it
    // sends its next lines then.
    write(job, lines);
    if (written) written();
  });
}

void JobLogs::write(const std::string& job, const std::vector<LogLine>& lines) {
  {
    const std::lock_guard lock(mutex_);
    // A page that said that it is complete must stay true.
    if (ended_.contains(job)) return;
  }
  // A line that is lost does no harm to the job; the number of lost lines is told once the disk
  // works again, or after a while.
  const Status status = log_of(job)->append(lines);
  if (!status.ok()) lost_ += lines.size();
  const auto now = std::chrono::steady_clock::now();
  if (lost_ > 0 && (status.ok() || now - lost_told_ >= kBetweenLosses)) {
    logger_.warning("log of job ", job, ": ", counted(std::exchange(lost_, 0), "line"), " lost",
                    status.ok() ? "" : cat(": ", status.message()));
    lost_told_ = now;
  }
  answer(job);
}

// The end goes through the queue, so that it comes after the lines that were added before it.
void JobLogs::end(const std::string& job) {
  (void)thread_.post([this, job] {
    {
      const std::lock_guard lock(mutex_);
      ended_.insert(job);
      if (const auto found = logs_.find(job); found != logs_.end()) found->second->close();
    }
    answer(job);
  });
}

void JobLogs::remove(const std::string& job) {
  (void)thread_.post([this, job] {
    {
      const std::lock_guard lock(mutex_);
      forget(job);
      // The calls that wait for a line are answered as at the end of the log. Afterwards the set
      // forgets the job, since ids of removed jobs would pile up in it.
      ended_.insert(job);
    }
    answer(job);
    const std::lock_guard lock(mutex_);
    // The answers have looked for the log again.
    forget(job);
    ended_.erase(job);
  });
}

void JobLogs::forget(const std::string& job) {
  const auto found = logs_.find(job);
  if (found == logs_.end()) return;
  std::erase(recent_, found->second);
  logs_.erase(found);
}

std::shared_ptr<JobLog> JobLogs::log_of(const std::string& job) const {
  const std::lock_guard lock(mutex_);
  auto& log = logs_[job];
  if (log == nullptr) {
    log = std::make_shared<JobLog>(cat(folder_, "/", job, "/log.txt"), max_bytes_);
  }
  std::erase(recent_, log);
  // The list is in the order of the last use. A log that falls off its end closes its file, and
  // opens it again when it is needed.
  recent_.push_front(log);
  if (recent_.size() > kOpenFiles) {
    recent_.back()->close();
    recent_.pop_back();
  }
  return log;
}

Result<LogPage> JobLogs::page(const std::string& job, uint64_t from, size_t most) const {
  // `ended` is read before the lines: a log that has ended by then gets no further ones, so the
  // page that is called complete is complete.
  bool ended = false;
  {
    const std::lock_guard lock(mutex_);
    ended = ended_.contains(job);
  }
  const auto log = log_of(job);
  LEAT_ASSIGN_OR_RETURN(LogPage page, log->page(from, most));
  page.complete = ended;
  // An ended log is seldom read again, so it holds no descriptor between two pages.
  if (ended) log->close();
  return page;
}

void JobLogs::wait(const std::string& job, uint64_t from,
                   std::chrono::steady_clock::time_point deadline, Done done) {
  // The completion is shared, since this call needs it if the thread does not take the task.
  const auto shared = std::make_shared<Done>(std::move(done));
  const bool posted = thread_.post([this, job, from, deadline, shared] {
    Waiting waiting{job, from, deadline, std::move(*shared)};
    if (!answer(waiting)) waiting_.push_back(std::move(waiting));
  });
  if (!posted) (*shared)(cancelled("the master is stopping"));
}

void JobLogs::answer(const std::string& job) {
  for (auto at = waiting_.begin(); at != waiting_.end();) {
    // With an empty `job`, only calls whose deadline is over are looked at: a new line of any job
    // would have answered its calls already.
    const bool due = at->deadline <= std::chrono::steady_clock::now();
    const bool concerned = due || at->job == job;
    at = concerned && answer(*at) ? waiting_.erase(at) : std::next(at);
  }
}

bool JobLogs::answer(Waiting& waiting) {
  // An error answers the call, too: a log that cannot be read will not get better by waiting.
  auto page = this->page(waiting.job, waiting.from, kPageLines);
  const bool late = waiting.deadline <= std::chrono::steady_clock::now();
  if (page.ok() && page->lines.empty() && !page->complete && !late) return false;
  waiting.done(std::move(page));
  return true;
}

}  // namespace leat
