#include "daemon/master/journal_thread.h"

#include <future>
#include <span>

#include "devices/base/text.h"

namespace leat {

JournalThread::JournalThread(std::unique_ptr<Journal> journal, const Clock& clock)
    : journal_(std::move(journal)), disk_(clock), thread_("journal") {}

JournalThread::~JournalThread() { thread_.stop(); }

void JournalThread::write(WriteJournal action, Written written) {
  // Only the first pending change posts a task. Those that come before the task runs are part of
  // its batch, so many changes cost one sync of the disk.
  bool first = false;
  {
    const std::lock_guard lock(mutex_);
    first = pending_.empty();
    pending_.push_back({std::move(action), std::move(written)});
  }
  if (first) (void)thread_.post([this] { write_pending(); });
}

void JournalThread::write_pending() {
  std::vector<Pending> batch;
  {
    const std::lock_guard lock(mutex_);
    // From here on the next change is the first one again, and posts its own task behind this one.
    batch = std::exchange(pending_, {});
  }
  std::vector<JournalRecord> records;
  for (const Pending& each : batch) records.push_back(each.action.record);
  const auto append = [&](std::span<const JournalRecord> some) {
    const DiskWaits::Operation operation(disk_, "to write the journal");
    return journal_->append(some);
  };
  // append() writes all records or none, so after a failure each can be tried alone.
  Status status = append(records);
  for (size_t i = 0; i < batch.size(); ++i) {
    // One that cannot be written does not refuse the others.
    if (!status.ok() && batch.size() > 1) {
      batch[i].written({batch[i].action.write, append(std::span(&records[i], 1))});
    } else {
      batch[i].written({batch[i].action.write, status});
    }
  }
}

bool JournalThread::post(std::function<void(Journal&)> task) {
  // The queue keeps the order of all tasks, so `task` sees every change that was written before.
  return thread_.post([this, task = std::move(task)] { task(*journal_); });
}

template <typename T>
Result<T> JournalThread::ask(std::function<Result<T>(Journal&)> read, const std::string& subject,
                             std::chrono::milliseconds within) {
  // The promise is shared with the task, which may still run when this call has given up.
  const auto promise = std::make_shared<std::promise<Result<T>>>();
  auto answer = promise->get_future();
  if (!post([promise, read](Journal& journal) { promise->set_value(read(journal)); }))
    return cancelled(cat(subject, ": the journal is closed"));
  if (answer.wait_for(within) != std::future_status::ready) {
    return deadline_exceeded(
        cat(subject, ": the journal did not answer within ", within.count(), " ms"));
  }
  return answer.get();
}

Result<Submission> JournalThread::submission(const std::string& id,
                                             std::chrono::milliseconds within) {
  return ask<Submission>([id](Journal& journal) { return journal.submission(id); },
                         cat("job '", id, "'"), within);
}

Result<std::map<std::string, uint64_t>> JournalThread::files_of(const std::string& user,
                                                                std::chrono::milliseconds within) {
  return ask<std::map<std::string, uint64_t>>(
      [user](Journal& journal) { return journal.files_of(user); }, cat("files of '", user, "'"),
      within);
}

}  // namespace leat
