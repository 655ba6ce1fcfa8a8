// The journal of jobs: a SQLite database (write-ahead log, synchronous=FULL) in the master's state
// directory. What append() has said ok to survives a crash of the process, of the machine, and a
// loss of power; what it has not may be there or not, whole.
//
//   <state directory>/journal.lock      held by the master that runs, and says which it is
//                     journal.sqlite    and -wal beside it
//                     blobs/<SHA-256>   uploaded files that jobs name
//                     kept-blobs        names of those that were there before the journal
//
// A file that is not a journal, is damaged, or is of a newer version is refused with what to do
// about it, and is left as it is, byte by byte: the journal never starts anew over another. Every
// row has a checksum, and so has what the tables are, since SQLite's pages have none. What cannot
// be told from the tail that a crash leaves is damage to more than a bit of the log's last
// transaction.
//
// After a failed disk (unavailable) nothing is known of what is on it, so every later append()
// fails with the first error, until the master starts again. A full one (resource_exhausted) is
// tried anew each time; a journal on one is opened, and read. One on a file system that is
// read-only is read from a copy, and refuses every append().
//
// A journal that is not there is made, but not beside the folders of jobs, which are of one that is
// gone: see JournalLimits::new_journal.
//
// Failpoints: journal/append, journal/commit (before it), journal/committed (after it).
//
// Threads: one at a time; the daemon gives it a thread of its own, as a sync takes milliseconds.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/base/temporary_folder.h"
#include "daemon/jobs/blobs.h"
#include "daemon/jobs/records.h"
#include "devices/base/files.h"

namespace leat {

class SqliteDatabase;

struct JournalLimits {
  uint64_t max_bytes = uint64_t{4} << 30;  // of the database, without its log
  // Make one though there are folders of jobs, which nobody goes on with then. They stay, and the
  // blobs that are there.
  bool new_journal = false;
};

class Journal {
 public:
  // Of the tables. 1 had no checksum of the schema and of `meta`; such a journal is taken up.
  static constexpr int kSchemaVersion = 2;

  // Takes the state directory for this process, made if it is not there, and checks all of the
  // journal. failed_precondition if another master has it, or the journal is refused.
  static Result<std::unique_ptr<Journal>> open(Files& files, const std::string& state_directory,
                                               const JournalLimits& limits = {});
  ~Journal();

  // 32 hexadecimal digits, drawn when the journal was made.
  const std::string& cluster_id() const { return cluster_id_; }
  // Counts the openings: a master of a lower one is of the past. One that could not be written is
  // given once more.
  uint64_t generation() const { return generation_; }
  Blobs& blobs() { return blobs_; }
  // Why nothing could be written when it was opened.
  const Status& opened() const { return opened_; }
  // Removes the blobs that no job names, but for those that changed less than `least` ago: their
  // job may be on its way.
  Status collect_blobs(std::chrono::seconds least);

  // All of the records, in order, or none. A submit that names a blob that is not there is refused
  // (failed_precondition).
  Status append(std::span<const JournalRecord> records);
  Status append(const JournalRecord& record) { return append(std::span(&record, 1)); }

  // The jobs in the order of their numbers, each in its last condition.
  Result<std::vector<StoredJob>> replay();
  // The job as it was submitted, its content checked.
  Result<Submission> submission(std::string_view id);
  // Jobs that are forgotten and whose folders may still be there.
  Result<std::set<std::string>> forgotten_jobs();
  // The names of workers that get no jobs.
  Result<std::set<std::string>> drained_workers();
  // Its conditions, oldest first.
  Result<std::vector<JobCondition>> history(std::string_view id);

 private:
  class Lock;
  Journal(Files& files, std::string directory);

  // `why`: "is on a disk that ...", for people.
  Status copy_to_read(std::string_view why);
  Status expect_no_jobs() const;
  Status open_database(const JournalLimits& limits);
  Status check_database();
  Status room_for_a_file();
  Status check_meta();
  // Of the schema, and of what is in `meta`.
  Result<std::string> crc_of_meta();
  Status begin_generation();
  Status write_generation();
  Status append_or_roll_back(std::span<const JournalRecord> records);
  Status append_in_transaction(std::span<const JournalRecord> records);
  Status keep_blobs();
  Result<std::set<std::string>> kept_blobs() const;

  Files& files_;
  const std::string directory_;
  std::string database_path_;
  Blobs blobs_;
  std::unique_ptr<Lock> lock_;
  std::unique_ptr<TemporaryFolder> copy_;  // of one that cannot be written
  std::unique_ptr<SqliteDatabase> database_;
  std::string cluster_id_;
  uint64_t generation_ = 0;
  bool generation_written_ = false;
  Status opened_;
  Status broken_;
};

}  // namespace leat
