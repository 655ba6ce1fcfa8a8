#include "daemon/master/job_logs.h"

#include <utility>

#include "daemon/jobs/events.h"
#include "devices/base/counted.h"
#include "devices/base/text.h"

namespace leat {
namespace {

constexpr auto kTick = std::chrono::milliseconds(100);
constexpr auto kBetweenLosses = std::chrono::seconds(10);
constexpr size_t kPageLines = 10'000;
constexpr size_t kOpenFiles = 64;

}  // namespace

JobLogs::JobLogs(std::string folder, uint64_t max_bytes, const Clock& clock, Logger log)
    : folder_(std::move(folder)),
      max_bytes_(max_bytes),
      clock_(clock),
      logger_(std::move(log)),
      thread_("logs", kTick, [this] { answer(""); }) {}

void JobLogs::stop() {
  thread_.stop();
  for (Waiting& each : std::exchange(waiting_, {})) each.done(cancelled("the master is stopping"));
}

void JobLogs::add(const std::string& job, const std::string& who, std::vector<std::string> texts,
                  std::function<void()> written) {
  std::vector<LogLine> lines;
  const int64_t now = moment_of(clock_).wall_ms;
  for (std::string& text : texts) lines.push_back({now, who, std::move(text)});
  (void)thread_.post([this, job, lines = std::move(lines), written = std::move(written)] {
    write(job, lines);
    if (written) written();
  });
}

void JobLogs::write(const std::string& job, const std::vector<LogLine>& lines) {
  {
    const std::lock_guard lock(mutex_);
    if (ended_.contains(job)) return;
  }
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
      std::erase(recent_, logs_[job]);
      logs_.erase(job);
      ended_.insert(job);
    }
    answer(job);
    const std::lock_guard lock(mutex_);
    ended_.erase(job);
  });
}

std::shared_ptr<JobLog> JobLogs::log_of(const std::string& job) const {
  const std::lock_guard lock(mutex_);
  auto& log = logs_[job];
  if (log == nullptr) {
    log = std::make_shared<JobLog>(cat(folder_, "/", job, "/log.txt"), max_bytes_);
  }
  std::erase(recent_, log);
  recent_.push_front(log);
  if (recent_.size() > kOpenFiles) {
    recent_.back()->close();
    recent_.pop_back();
  }
  return log;
}

Result<LogPage> JobLogs::page(const std::string& job, uint64_t from, size_t most) const {
  bool ended = false;
  {
    const std::lock_guard lock(mutex_);
    ended = ended_.contains(job);
  }
  const auto log = log_of(job);
  LEAT_ASSIGN_OR_RETURN(LogPage page, log->page(from, most));
  page.complete = ended;
  if (ended) log->close();
  return page;
}

void JobLogs::wait(const std::string& job, uint64_t from,
                   std::chrono::steady_clock::time_point deadline, Done done) {
  const auto shared = std::make_shared<Done>(std::move(done));
  const bool posted = thread_.post([this, job, from, deadline, shared] {
    Waiting waiting{job, from, deadline, std::move(*shared)};
    if (!answer(waiting)) waiting_.push_back(std::move(waiting));
  });
  if (!posted) (*shared)(cancelled("the master is stopping"));
}

void JobLogs::answer(const std::string& job) {
  for (auto at = waiting_.begin(); at != waiting_.end();) {
    const bool due = at->deadline <= std::chrono::steady_clock::now();
    const bool concerned = due || at->job == job;
    at = concerned && answer(*at) ? waiting_.erase(at) : std::next(at);
  }
}

bool JobLogs::answer(Waiting& waiting) {
  auto page = this->page(waiting.job, waiting.from, kPageLines);
  const bool late = waiting.deadline <= std::chrono::steady_clock::now();
  if (page.ok() && page->lines.empty() && !page->complete && !late) return false;
  waiting.done(std::move(page));
  return true;
}

}  // namespace leat
