#include "daemon/runner/turn_log.h"

#include <algorithm>
#include <cstring>

namespace leat {
namespace {

constexpr size_t kRingBytes = 256 << 10;
constexpr uint64_t kMostRows = 4096;
// Rows that are larger go in parts of any size.
constexpr size_t kWholeRow = 64 << 10;

size_t padded(size_t bytes) { return (bytes + 7) / 8 * 8; }
size_t bytes_of(const PlanBorder& fetch) {
  return static_cast<size_t>(fetch.shape.elements()) * dtype_size(fetch.dtype);
}

}  // namespace

size_t row_bytes(const Plan& plan, uint32_t partition) {
  size_t bytes = 0;
  for (const PlanBorder& fetch : plan.fetches) {
    if (fetch.partition == partition) bytes += padded(bytes_of(fetch));
  }
  return bytes;
}

// Two while one is being reported; of very large ones, one.
uint64_t rows_in_log(size_t row_bytes) {
  if (row_bytes == 0) return kMostRows;
  return std::clamp<uint64_t>(kRingBytes / row_bytes, row_bytes > kRingBytes ? 1 : 2, kMostRows);
}

size_t turn_log_bytes(const Plan& plan, uint32_t partition) {
  const size_t row = row_bytes(plan, partition);
  return row * rows_in_log(row);
}

TurnLog::TurnLog(DeviceHost& worker, HostedPartition& run, News news)
    : worker_(worker),
      run_(run),
      news_(std::move(news)),
      first_step_(run.run().options().first_step),
      row_bytes_(leat::row_bytes(run.plan(), run.partition())),
      granted_(first_step_),
      limit_(first_step_) {
  const std::vector<PlanBorder>& fetches = run.plan().fetches;
  for (uint32_t i = 0; i < fetches.size(); ++i) {
    if (fetches[i].partition == run.partition()) fetches_.emplace_back(i, bytes_of(fetches[i]));
  }
  room_ = rows_in_log(row_bytes_);
  ring_.resize(room_ * row_bytes_);
}

void TurnLog::grant(uint64_t limit) {
  uint64_t allow;
  {
    std::lock_guard lock(mutex_);
    granted_ = std::max(granted_, limit);
    allow = next_limit();
  }
  if (allow > 0) worker_.extend(run_, allow);
}

uint64_t TurnLog::hold() {
  uint64_t limit;
  {
    std::lock_guard lock(mutex_);
    limit = granted_ = limit_ = worker_.hold(run_);
  }
  news_(true);  // all may be done already that was awaited with patience
  return limit;
}

void TurnLog::fence(uint64_t limit) {
  {
    std::lock_guard lock(mutex_);
    granted_ = limit_ = limit;
  }
  worker_.fence(run_, limit);
  news_(true);
}

bool TurnLog::idle() const {
  std::lock_guard lock(mutex_);
  return failed_ || first_step_ + run_.run().turns() >= granted_;
}

uint64_t TurnLog::granted() const {
  std::lock_guard lock(mutex_);
  return granted_;
}

// What the run is to be allowed now; 0 if that can wait: it has half a window left. Without fetches
// nothing is ever overwritten, and the run is told once.
uint64_t TurnLog::next_limit() {
  if (fetches_.empty()) {
    if (granted_ <= limit_) return 0;
    return limit_ = granted_;
  }
  const uint64_t there = first_step_ + copied_;
  const uint64_t limit = std::min(granted_, there + kWindow);
  if (limit <= limit_ || (limit_ > there + kWindow / 2 && limit < granted_)) return 0;
  limit_ = limit;
  return limit;
}

void TurnLog::copy_row(uint64_t turn) {
  std::byte* to = ring_.data() + turn % room_ * row_bytes_;
  for (const auto& [fetch, bytes] : fetches_) {
    if (bytes > 0) std::memcpy(to, run_.run().fetched_data(fetch, first_step_ + turn), bytes);
    to += padded(bytes);
  }
}

// True if that was all that is finished.
bool TurnLog::copy_rows() {
  const uint64_t finished = run_.run().turns();
  if (fetches_.empty()) copied_ = std::max(copied_, finished);
  for (; copied_ < finished && copied_ - reported_ < room_; ++copied_) copy_row(copied_);
  return copied_ >= finished;
}

// Copies what is finished and waits for the next turn; if the ring is full, take() goes on.
void TurnLog::follow() {
  uint64_t allow, next;
  bool wait, urgent;
  {
    std::lock_guard lock(mutex_);
    copy_rows();
    allow = next_limit();
    next = copied_ + 1;
    following_ = wait = fetches_.empty() || copied_ - reported_ < room_;
    urgent = first_step_ + copied_ >= granted_ ||
             (!fetches_.empty() && copied_ - reported_ >= room_ / 2);
  }
  if (allow > 0) worker_.extend(run_, allow);
  if (next > 1) news_(urgent);
  if (!wait) return;
  // Small and trivial, so that the callback allocates nothing.
  run_.run().finished().when(next, [this](const Status& status) {
    if (status.ok()) {
      follow();
    } else {
      ended();
    }
  });
}

void TurnLog::ended() {
  {
    std::lock_guard lock(mutex_);
    following_ = false;
    failed_ = true;
  }
  news_(true);
}

void TurnLog::take_rows(RunReport& report, size_t most) {
  report.first_row = reported_;
  report.row_offset = row_taken_;
  if (fetches_.empty()) reported_ = copied_;
  while (reported_ < copied_) {
    const size_t left = most - report.bytes;
    const size_t size = std::min(row_bytes_ - row_taken_, left);
    const bool whole = size == row_bytes_ - row_taken_;
    if (!whole && (left == 0 || (row_bytes_ <= kWholeRow && !report.rows.empty()))) return;
    const std::byte* from = ring_.data() + reported_ % room_ * row_bytes_ + row_taken_;
    report.rows.emplace_back(from, from + size);
    report.bytes += size;
    row_taken_ = whole ? 0 : row_taken_ + size;
    if (!whole) return;
    ++reported_;
  }
}

bool TurnLog::take(RunReport& report, size_t most) {
  bool resume, news;
  {
    std::lock_guard lock(mutex_);
    const uint64_t before = reported_;
    const bool all = failed_ && copy_rows();
    take_rows(report, most);
    report.turns = reported_;
    news = reported_ > before || !report.rows.empty();
    if (all && reported_ == copied_ && !failure_reported_) {
      report.failure = run_.run().status();
      failure_reported_ = news = true;
    }
    resume = !failed_ && !following_;
    if (resume) following_ = true;
  }
  if (resume) follow();
  return news;
}

}  // namespace leat
