// Writes the audit log of a master: who asked for what, from where, and with what result. See
// audit_chain.h for the file.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "daemon/audit/audit_chain.h"
#include "daemon/base/task_thread.h"
#include "devices/base/clock.h"
#include "devices/base/log.h"

namespace leat {

struct AuditEntry {
  std::string action;   // "submit"
  std::string subject;  // the job, worker or file; may be empty
  std::string by;       // who asked, and from where
  Status outcome = {};
};

// Entries that come together are synced together. If the disk fails, entries wait in memory, at
// most 10,000, and the log tries again every second; status() says so meanwhile, and the caller is
// to refuse what changes anything.
//
// Threads: any.
class AuditLog {
 public:
  using Written = std::function<void(const Status&)>;

  // Has the thread "audit" read the chain in the folder, tell the log of its last entry, and go on
  // with it in a new segment. Does not wait for the disk. If the chain is broken the
  // folder is renamed, "audit-broken-<milliseconds of Unix time>", and a new chain begins with an
  // entry that says so. If the disk does not allow this, status() says so, and it is tried again.
  // `files` and `clock` outlive it. `to_log`: each entry that is on the disk is a line of `log`,
  // too.
  static std::unique_ptr<AuditLog> open(Files& files, const std::string& folder, const Clock& clock,
                                        Logger log, bool to_log = false);
  // Writes what waits.
  ~AuditLog() { stop(); }
  AuditLog(const AuditLog&) = delete;
  AuditLog& operator=(const AuditLog&) = delete;

  // `written` is called on the thread "audit" when the entry is on the disk, or could not be
  // written; with `cancelled`, by the caller, after stop().
  void add(AuditEntry entry, Written written = {});
  // The same for a refused connection or request ("connect"), of which strangers can cause any
  // number: at most 100 at once, and 10 in a second. The next entry of any kind has the number of
  // those that were left out.
  void add_refused(const std::string& by, const Status& why);
  // The same for lines that a worker sent for a log which is not its own ("log"), within limits of
  // their own: a worker leaves out no entry of a connection.
  void add_refused_lines(const std::string& by, const Status& why);
  // Ok, or the failure of the last attempt to write.
  Status status() const;
  // The last entry that is on the disk.
  AuditHead head() const;
  // Writes what waits, and takes no further entries.
  void stop();

 private:
  struct Waiting {
    AuditEntry entry;
    int64_t at_ms;
    uint64_t left_out;
    Written written;
  };

  AuditLog(Files& files, std::string folder, const Clock& clock, Logger log, bool to_log);
  // So many entries of one kind may be written at once.
  struct Budget {
    double allowed = 0;
    Clock::Steady refilled_at;
  };
  void add_within(Budget& budget, AuditEntry entry);
  void post(Waiting waiting);
  // The rest runs on the thread.
  Status read_chain();
  void write_all();
  Status write(const std::deque<Waiting>& entries, AuditHead& head);
  Status open_segment();

  Files& files_;
  const std::string folder_;
  const Clock& clock_;
  const Logger log_;
  const bool to_log_;
  bool has_read_ = false;               // the chain
  std::unique_ptr<WritableFile> file_;  // the segment that is being written; null: the next is new
  uint64_t segment_bytes_ = 0;
  std::deque<Waiting> unwritten_;

  mutable std::mutex mutex_;
  std::deque<Waiting> waiting_;
  Status status_;
  AuditHead head_;
  struct {
    Budget connections, lines;
    uint64_t left_out = 0;  // of both kinds, that no entry has told of
  } refusals_;
  TaskThread thread_;  // last, because it uses the other members
};

}  // namespace leat
