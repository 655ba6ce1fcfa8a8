#include "daemon/worker/news_outbox.h"

#include <utility>

#include "devices/base/text.h"

namespace leat {
namespace {

using OutboxClock = std::chrono::steady_clock;

// A worker that stops goes on sending its news for so long.
constexpr std::chrono::seconds kFarewell{1};
constexpr size_t kMostNews = 4u << 20;  // bytes of lines that wait for the master
// Bytes of lines in one message. The master refuses messages of more than twice as many.
constexpr size_t kLinesAtOnce = 64 << 10;

// One call to the master has the lines of one job and assembly.
bool of_one_runner(const WorkerOutput& a, const WorkerOutput& b) {
  return a.job == b.job && a.assembly == b.assembly;
}

}  // namespace

size_t WorkerOutput::bytes() const {
  size_t sum = 0;
  for (const std::string& line : lines) sum += line.size() + 1;
  return sum;
}

void NewsOutbox::add(WorkerOutput output) {
  {
    const std::lock_guard lock(mutex_);
    const size_t bytes = output.bytes();
    // The end of a runner has no lines, so it is never dropped here.
    if (bytes_ + bytes > kMostNews) {
      dropped_lines_ += output.lines.size();
      return;
    }
    bytes_ += bytes;
    split(std::move(output));
  }
  changed_.notify_all();
}

// Queues the output as pieces that fit into a message each. The end stays with the last piece.
void NewsOutbox::split(WorkerOutput output) {
  WorkerOutput piece{output.job, output.assembly, {}};
  size_t bytes = 0;
  for (std::string& line : output.lines) {
    const size_t more = line.size() + 1;
    if (bytes > 0 && bytes + more > kLinesAtOnce) {
      news_.push_back(piece);
      piece.lines.clear();
      bytes = 0;
    }
    bytes += more;
    piece.lines.push_back(std::move(line));
  }
  piece.end = std::move(output.end);
  news_.push_back(std::move(piece));
}

void NewsOutbox::drain(std::chrono::milliseconds patience) {
  std::unique_lock lock(mutex_);
  drains_ = true;
  // An earlier drain may have been told to the master before it was restarted.
  drain_told_ = false;
  changed_.notify_all();
  changed_.wait_for(lock, patience, [this] { return drain_told_ || ended_ || stopping_; });
}

void NewsOutbox::told_drain() {
  {
    const std::lock_guard lock(mutex_);
    drain_told_ = true;
  }
  changed_.notify_all();
}

void NewsOutbox::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
}

bool NewsOutbox::stopping() const {
  const std::lock_guard lock(mutex_);
  return stopping_;
}

bool NewsOutbox::pause(std::chrono::milliseconds time) {
  std::unique_lock lock(mutex_);
  return !changed_.wait_for(lock, time, [this] { return stopping_; });
}

void NewsOutbox::begin(bool fresh) {
  const std::lock_guard lock(mutex_);
  // The end of the last membership must not end the new one.
  ended_.reset();
  leave_by_.reset();
  // The master knows nothing of the runners of a lost incarnation, so it has no use for their news.
  if (!fresh) return;
  news_.clear();
  bytes_ = 0;
  dropped_lines_ = 0;
}

void NewsOutbox::end(const Status& cause) {
  {
    const std::lock_guard lock(mutex_);
    if (!ended_) ended_ = cause;
  }
  changed_.notify_all();
}

NewsOutbox::Next NewsOutbox::next() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return ended_ || stopping_ || !news_.empty() || drains_; });
  // The end of the membership comes before all news: they could not be sent.
  if (ended_) return *ended_;
  if (std::exchange(drains_, false)) return Drain{};
  // The farewell begins with the first call after stop(), and does not begin again with the next
  // ones.
  if (stopping_ && !leave_by_) leave_by_ = OutboxClock::now() + kFarewell;
  if (stopping_ && (news_.empty() || OutboxClock::now() > *leave_by_))
    return cancelled("the worker stops");
  return take();
}

WorkerOutput NewsOutbox::take() {
  WorkerOutput next = std::move(news_.front());
  news_.pop_front();
  size_t bytes = next.bytes();
  bytes_ -= bytes;
  // Lines that follow each other go into one message. An end stays behind the lines before it.
  while (next.end.how.empty() && !news_.empty() && news_.front().end.how.empty() &&
         of_one_runner(news_.front(), next)) {
    const size_t more = news_.front().bytes();
    if (bytes + more > kLinesAtOnce) break;
    for (std::string& line : news_.front().lines) next.lines.push_back(std::move(line));
    news_.pop_front();
    bytes_ -= more;
    bytes += more;
  }
  // Put the end into the message of the last lines, so that it need not wait for an answer to them.
  const bool last = next.end.how.empty() && !news_.empty() && news_.front().lines.empty() &&
                    of_one_runner(news_.front(), next);
  if (last) {
    next.end = std::move(news_.front().end);
    news_.pop_front();
  }
  // People who read the log of the job see that something is missing.
  if (dropped_lines_ > 0) {
    next.lines.insert(next.lines.begin(), cat("(", dropped_lines_, " lines were dropped)"));
    dropped_lines_ = 0;
  }
  return next;
}

}  // namespace leat
