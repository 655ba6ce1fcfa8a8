// The real journal, on a disk in memory that outlives the master.
//
// Threads: one. One of them at a time: it is SQLite's file system while it lives.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "daemon/jobs/journal.h"
#include "tests/daemon/jobs/journal_fixture.h"
#include "tests/daemon/jobs/sqlite_on_disk.h"
#include "tests/daemon/sim/sim_disk.h"

namespace leat::sim {

class SimJournal {
 public:
  explicit SimJournal(const DiskHealth& health);

  // As a master does that starts. What the journal holds.
  Result<std::vector<StoredJob>> open();
  Status append(std::span<const JournalRecord> records) { return journal_->append(records); }
  // The master ends, and while `in_the_air` is being written, or before. If its machine loses its
  // power, too, the seed says what is left of what was not synced.
  void crash(std::span<const JournalRecord> in_the_air, bool loses_power, uint64_t seed);

 private:
  const JournalFolder folder_;  // what is locked is real
  std::unique_ptr<CrashFiles> disk_ = std::make_unique<CrashFiles>();
  SqliteOnDisk sqlite_{*disk_};
  std::unique_ptr<Journal> journal_;
};

}  // namespace leat::sim
