// The journal and its thread, "journal": a sync takes milliseconds, and nobody else waits for it.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "daemon/base/task_thread.h"
#include "daemon/jobs/events.h"
#include "daemon/jobs/journal.h"

namespace leat {

// Threads: any.
class JournalThread {
 public:
  using Written = std::function<void(JournalWritten)>;

  explicit JournalThread(std::unique_ptr<Journal> journal);
  // Writes what is left to write, then closes the journal.
  ~JournalThread();

  const std::string& cluster_id() const { return journal_->cluster_id(); }
  uint64_t generation() const { return journal_->generation(); }
  // Uploaded files: by whoever wants, on its own thread.
  Blobs& blobs() { return journal_->blobs(); }

  // Writes it, in the order of the calls, and tells `written` on this thread what became of it.
  // What comes while the disk is busy is written together.
  void write(WriteJournal action, Written written);
  // Does not return before the thread has come to it, `within` at most: for threads that may wait.
  Result<Submission> submission(const std::string& id, std::chrono::milliseconds within);
  // Anything else, on the thread.
  bool post(std::function<void(Journal&)> task);
  // Writes what is left.
  void stop() { thread_.stop(); }

 private:
  struct Pending {
    WriteJournal action;
    Written written;
  };
  void write_pending();

  const std::unique_ptr<Journal> journal_;
  std::mutex mutex_;
  std::vector<Pending> pending_;
  TaskThread thread_;  // last: it uses the rest
};

}  // namespace leat
