#include "tests/daemon/sim/sim_journal.h"

#include <sqlite3.h>

namespace leat::sim {

SimJournal::SimJournal(const DiskHealth& health) {
  sqlite_.fault = [&health] {
    return health.failing ? SQLITE_IOERR_FSYNC : health.full ? SQLITE_FULL : SQLITE_OK;
  };
}

Result<std::vector<StoredJob>> SimJournal::open() {
  LEAT_ASSIGN_OR_RETURN(journal_, Journal::open(*disk_, folder_.path()));
  return journal_->replay();
}

void SimJournal::crash(std::span<const JournalRecord> in_the_air, bool loses_power, uint64_t seed) {
  // The journal may refuse to open after a sector that was written by half. journal_disk_test.cc
  // covers that; this avoids it.
  while (CrashFiles::tears_a_sector(seed)) seed = CrashFiles::mix(seed);
  const size_t before = disk_->operations();
  if (journal_ != nullptr && !in_the_air.empty() && seed % 4 != 0)
    (void)journal_->append(in_the_air);
  const size_t done = before + CrashFiles::mix(seed) % (disk_->operations() - before + 1);
  auto left = loses_power ? std::make_unique<CrashFiles>(disk_->after_crash(done, seed))
                          : std::make_unique<CrashFiles>(*disk_);
  journal_.reset();  // its destructor removes unused files
  disk_ = std::move(left);
  sqlite_.mount(*disk_, seed);
}

}  // namespace leat::sim
