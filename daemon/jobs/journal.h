// The journal of jobs: a SQLite database (write-ahead log, synchronous=FULL) in the master's state
// directory. A record for which append() returned ok survives a crash of the process or the
// machine, and a loss of power. A record for which it did not is there as a whole or not at all.
//
//   <state directory>/journal.lock      locked by the running master, which writes its name there
//                     journal.sqlite    and -wal beside it
//                     blobs/<SHA-256>   uploaded files that jobs name
//                     kept-blobs        names of the blobs that are older than the journal
//
// A file that is not a journal, is damaged, or is of a newer version is refused with the remedy,
// and stays as it is, byte by byte: a new journal never replaces another. Every row has a checksum,
// and so has the schema, because SQLite's pages have none. Damage to more than one bit of the log's
// last transaction looks like the tail that a crash leaves, so it is not noticed.
//
// After an error of the disk (unavailable) its content is unknown, so every later append() fails
// with the first error until the master starts again. On a full disk (resource_exhausted) each
// append() is tried again; a journal there can be opened and read. A journal on a read-only file
// system is read from a copy, and refuses every append().
//
// A missing journal is made, unless folders of jobs show that there was another one: see
// JournalLimits::new_journal.
//
// Failpoints: journal/append, journal/commit (before it), journal/committed (after it).
//
// Threads: one at a time. The daemon gives it its own thread, because a sync takes milliseconds.
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
#include <utility>
#include <vector>

#include "daemon/base/temporary_folder.h"
#include "daemon/jobs/blobs.h"
#include "daemon/jobs/records.h"
#include "devices/base/files.h"

namespace leat {

class SqliteDatabase;

struct JournalLimits {
  uint64_t max_bytes = uint64_t{4} << 30;  // of the database, without its log
  // Makes a journal although there are folders of jobs. These jobs are then not continued, and
  // their folders and blobs stay.
  bool new_journal = false;
};

class Journal {
 public:
  // Version 1 had no checksum of the schema and of `meta`. A journal of version 1 is opened and
  // upgraded.
  static constexpr int kSchemaVersion = 2;

  // Locks the state directory for this process, makes it if necessary, and checks the whole
  // journal. failed_precondition if another master has it, or the journal is refused.
  static Result<std::unique_ptr<Journal>> open(Files& files, const std::string& state_directory,
                                               const JournalLimits& limits = {});
  ~Journal();

  // 32 hexadecimal digits, drawn when the journal was made.
  const std::string& cluster_id() const { return cluster_id_; }
  // Counts the openings: a master of a lower generation is outdated. A generation that could not be
  // written is used again.
  uint64_t generation() const { return generation_; }
  Blobs& blobs() { return blobs_; }
  // The error if nothing could be written when the journal was opened.
  const Status& opened() const { return opened_; }
  // Removes the blobs that no job names, except those that changed less than `least` ago: the
  // submit of their job may be in flight.
  Status collect_blobs(std::chrono::seconds least);

  // Appends all records in order, or none. failed_precondition if a submit names a missing blob.
  Status append(std::span<const JournalRecord> records);
  Status append(const JournalRecord& record) { return append(std::span(&record, 1)); }

  // Returns the jobs in the order of their numbers, each in its last condition.
  Result<std::vector<StoredJob>> replay();
  // Returns the job as it was submitted; checks its content.
  Result<Submission> submission(std::string_view id);
  // The sizes of the files that the jobs of that user name, by their SHA-256 in hexadecimal.
  Result<std::map<std::string, uint64_t>> files_of(std::string_view user);
  // The forgotten jobs whose folders may still exist.
  Result<std::set<std::string>> forgotten_jobs();
  // The names of workers that get no jobs.
  Result<std::set<std::string>> drained_workers();
  // The workers of all assemblies of all jobs: pairs of a worker's name and a job's id, each once.
  // The pair that a job named last is the last one.
  Result<std::vector<std::pair<std::string, std::string>>> workers_of_jobs();
  // The conditions of a job, oldest first.
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
  std::unique_ptr<TemporaryFolder> copy_;  // of a journal that cannot be written
  std::unique_ptr<SqliteDatabase> database_;
  std::string cluster_id_;
  uint64_t generation_ = 0;
  bool generation_written_ = false;
  Status opened_;
  Status broken_;
};

}  // namespace leat
