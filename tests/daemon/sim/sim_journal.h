// The real journal, on a disk in memory that outlives the master.
//
// Threads: one. Only one SimJournal at a time, because it acts as SQLite's file system while it
// lives.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "daemon/jobs/journal.h"
#include "tests/daemon/jobs/journal_fixture.h"
#include "tests/daemon/jobs/sqlite_on_disk.h"
#include "tests/daemon/sim/sim_disk.h"

namespace leat::sim {

// The journal of a simulated master, over all of the master's lives.
class SimJournal {
 public:
  explicit SimJournal(const DiskHealth& health);

  // Opens the journal as a starting master does. Returns the jobs that it holds.
  Result<std::vector<StoredJob>> open();
  Status append(std::span<const JournalRecord> records) { return journal_->append(records); }
  // Ends the master, perhaps while it writes `in_the_air`. If its machine loses its power, too, the
  // seed decides which unsynced bytes survive.
  void crash(std::span<const JournalRecord> in_the_air, bool loses_power, uint64_t seed);

 private:
  const JournalFolder folder_;  // its lock is a real file
  std::unique_ptr<CrashFiles> disk_ = std::make_unique<CrashFiles>();
  SqliteOnDisk sqlite_{*disk_};
  std::unique_ptr<Journal> journal_;
};

}  // namespace leat::sim
