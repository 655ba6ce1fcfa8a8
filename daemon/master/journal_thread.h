// The journal and its thread, "journal". A sync of the disk takes milliseconds; only this thread
// waits for it.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "daemon/base/task_thread.h"
#include "daemon/base/timed_files.h"
#include "daemon/jobs/events.h"
#include "daemon/jobs/journal.h"

namespace leat {

// Threads: any.
class JournalThread {
 public:
  using Written = std::function<void(JournalWritten)>;

  // `clock` outlives it.
  JournalThread(std::unique_ptr<Journal> journal, const Clock& clock);
  // Writes the pending changes, then closes the journal.
  ~JournalThread();

  const std::string& cluster_id() const { return journal_->cluster_id(); }
  uint64_t generation() const { return journal_->generation(); }
  // The uploaded files. Any thread may use them directly.
  Blobs& blobs() { return journal_->blobs(); }

  // Writes the changes in the order of the calls, and calls `written` on the thread "journal" with
  // the outcome. Changes that arrive while the disk is busy are written together.
  void write(WriteJournal action, Written written);
  // Reads the submission of a job on the thread "journal". Blocks until then, for at most `within`.
  Result<Submission> submission(const std::string& id, std::chrono::milliseconds within);
  // The files that the jobs of that user name, as Journal has it. Blocks likewise.
  Result<std::map<std::string, uint64_t>> files_of(const std::string& user,
                                                   std::chrono::milliseconds within);
  // Runs `task` on the thread "journal". False if the thread has stopped.
  bool post(std::function<void(Journal&)> task);
  // The write of changes that the disk has not ended.
  std::optional<DiskWait> disk_wait() const { return disk_.now(); }
  // Writes the pending changes.
  void stop() { thread_.stop(); }

 private:
  struct Pending {
    WriteJournal action;
    Written written;
  };
  void write_pending();
  // Has `read` run on the thread "journal", and returns its answer.
  template <typename T>
  Result<T> ask(std::function<Result<T>(Journal&)> read, const std::string& subject,
                std::chrono::milliseconds within);

  const std::unique_ptr<Journal> journal_;
  DiskWaits disk_;
  std::mutex mutex_;
  std::vector<Pending> pending_;
  TaskThread thread_;  // last: it uses the rest
};

}  // namespace leat
