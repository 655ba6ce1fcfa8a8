#include "daemon/audit/audit_log.h"

#include <algorithm>
#include <iterator>
#include <span>

#include "daemon/base/json_line.h"
#include "devices/base/text.h"

namespace leat {
namespace {

constexpr uint64_t kSegmentBytes = 64 << 20;
constexpr size_t kMostUnwritten = 10'000;
constexpr size_t kMostText = 4'096;  // of a subject, a name or a message
constexpr std::chrono::milliseconds kAgain{1'000};
constexpr double kRefusalsAtOnce = 100, kRefusalsPerSecond = 10;

int64_t ms_of(const Clock& clock) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(clock.now().time_since_epoch())
      .count();
}

}  // namespace

AuditLog::AuditLog(Files& files, std::string folder, const Clock& clock, Logger log, bool to_log)
    : files_(files),
      folder_(std::move(folder)),
      clock_(clock),
      log_(std::move(log)),
      to_log_(to_log),
      refusals_{{kRefusalsAtOnce, clock.steady()}, {kRefusalsAtOnce, clock.steady()}, 0},
      // Another attempt, if the last one failed.
      thread_("audit", kAgain, [this] {
        if (!status().ok()) write_all();
      }) {}

std::unique_ptr<AuditLog> AuditLog::open(Files& files, const std::string& folder,
                                         const Clock& clock, Logger log, bool to_log) {
  std::unique_ptr<AuditLog> made(new AuditLog(files, folder, clock, std::move(log), to_log));
  made->thread_.post([log = made.get()] { log->write_all(); });
  return made;
}

Status AuditLog::read_chain() {
  auto head = read_audit(files_, folder_);
  if (!head.ok() && head.status().code() == Code::failed_precondition) {
    LEAT_ASSIGN_OR_RETURN(const bool is_log, files_.exists(cat(folder_, "/", audit_segment(1))));
    if (!is_log) return head.status();
    const std::string aside = cat(folder_, "-broken-", ms_of(clock_));
    log_.error("the audit log was changed, and is kept as '", aside,
               "': ", head.status().message());
    LEAT_RETURN_IF_ERROR(files_.rename(folder_, aside));
    unwritten_.push_front(
        {{"check audit log", folder_, "the master", head.status()}, ms_of(clock_), 0, {}});
    head = AuditHead();
  }
  LEAT_RETURN_IF_ERROR(head.status());
  LEAT_RETURN_IF_ERROR(files_.make_directories(folder_));
  {
    const std::lock_guard lock(mutex_);
    head_ = *head;
  }
  log_.info("audit log: ", head->sequence, head->sequence == 1 ? " entry" : " entries",
            ", the hash of the last one is ", head->hash);
  has_read_ = true;
  return {};
}

void AuditLog::add(AuditEntry entry, Written written) {
  post({std::move(entry), ms_of(clock_), 0, std::move(written)});
}

void AuditLog::add_refused(const std::string& by, const Status& why) {
  add_within(refusals_.connections, {"connect", "", by, why});
}

void AuditLog::add_refused_lines(const std::string& by, const Status& why) {
  add_within(refusals_.lines, {"log", "", by, why});
}

void AuditLog::add_within(Budget& budget, AuditEntry entry) {
  {
    const std::lock_guard lock(mutex_);
    const auto now = clock_.steady();
    const std::chrono::duration<double> passed = now - budget.refilled_at;
    budget.refilled_at = now;
    budget.allowed =
        std::min(kRefusalsAtOnce, budget.allowed + kRefusalsPerSecond * passed.count());
    if (budget.allowed < 1) {
      ++refusals_.left_out;
      return;
    }
    --budget.allowed;
  }
  add(std::move(entry));
}

void AuditLog::post(Waiting waiting) {
  for (std::string* text : {&waiting.entry.subject, &waiting.entry.by})
    text->resize(std::min(text->size(), kMostText));
  Status refused;
  {
    const std::lock_guard lock(mutex_);
    if (waiting_.size() >= kMostUnwritten) {
      refused = unavailable(cat("the audit log: ", kMostUnwritten, " entries wait for the disk"));
    } else {
      waiting.left_out = std::exchange(refusals_.left_out, 0);
      waiting_.push_back(std::move(waiting));
      // The entries that are there when the thread comes to it are written together.
      if (waiting_.size() > 1 || thread_.post([this] { write_all(); })) return;
      refused = cancelled("the audit log is closed");
      waiting = std::move(waiting_.front());
      waiting_.clear();
    }
  }
  if (waiting.written) waiting.written(refused);
}

Status AuditLog::status() const {
  const std::lock_guard lock(mutex_);
  return status_;
}

AuditHead AuditLog::head() const {
  const std::lock_guard lock(mutex_);
  return head_;
}

void AuditLog::stop() { thread_.stop(); }

void AuditLog::write_all() {
  {
    const std::lock_guard lock(mutex_);
    std::move(waiting_.begin(), waiting_.end(), std::back_inserter(unwritten_));
    waiting_.clear();
  }
  AuditHead head;
  Status written = has_read_ ? Status() : read_chain();
  if (written.ok()) {
    head = this->head();
    written = write(unwritten_, head);
  }
  if (!written.ok()) file_.reset();
  {
    const std::lock_guard lock(mutex_);
    if (written.ok()) head_ = head;
    if (!written.ok() && status_.ok())
      log_.error("the audit log cannot be written, and nothing that changes the cluster is done: ",
                 written.message());
    if (written.ok() && !status_.ok()) log_.info("the audit log is written again");
    status_ = written;
  }
  for (Waiting& each : unwritten_)
    if (const auto told = std::exchange(each.written, nullptr)) told(written);
  if (written.ok()) unwritten_.clear();
  while (unwritten_.size() > kMostUnwritten) unwritten_.pop_front();
}

Status AuditLog::write(const std::deque<Waiting>& entries, AuditHead& head) {
  if (entries.empty()) return {};
  std::string text;
  for (const Waiting& each : entries) {
    JsonLine line;
    line.add("previous", head.hash)
        .add("sequence", head.sequence + 1)
        .add("time", iso_time(each.at_ms))
        .add("action", each.entry.action)
        .add("subject", std::string_view(each.entry.subject).substr(0, kMostText))
        .add("by", std::string_view(each.entry.by).substr(0, kMostText))
        .add("outcome", each.entry.outcome.ok() ? "ok" : code_name(each.entry.outcome.code()));
    if (!each.entry.outcome.ok())
      line.add("message", std::string_view(each.entry.outcome.message()).substr(0, kMostText));
    if (each.left_out > 0) line.add("left_out", each.left_out);
    const std::string& whole = line.text();
    head = {head.sequence + 1, audit_hash(std::string_view(whole).substr(0, whole.size() - 1))};
    text += whole;
  }
  if (file_ == nullptr || segment_bytes_ > kSegmentBytes) LEAT_RETURN_IF_ERROR(open_segment());
  LEAT_RETURN_IF_ERROR(file_->append(std::as_bytes(std::span(text))));
  LEAT_RETURN_IF_ERROR(file_->sync());
  segment_bytes_ += text.size();
  for (size_t at = 0; to_log_ && at < text.size(); at = text.find('\n', at) + 1)
    log_.info(std::string_view(text).substr(at, text.find('\n', at) - at));
  return {};
}

Status AuditLog::open_segment() {
  const std::string path = cat(folder_, "/", audit_segment(head().sequence + 1));
  // A segment of this name has no entry of the chain: its first one was never on the disk.
  LEAT_ASSIGN_OR_RETURN(const bool exists, files_.exists(path));
  if (exists) LEAT_RETURN_IF_ERROR(files_.remove(path));
  LEAT_ASSIGN_OR_RETURN(file_, files_.create(path));
  segment_bytes_ = 0;
  return files_.sync_directory(folder_);
}

}  // namespace leat
