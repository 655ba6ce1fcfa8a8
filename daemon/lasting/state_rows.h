// The rows of a saved state in the record of a session (session_log.h).
//
//   saved       the step
//   homes       the device of each resource
//   variables   the pieces of each variable, of 64 MiB: SQLite takes 1 GB in one row
//   seal        of an encrypted record: the digest of the keys and the values of all the rows
//               above, and of the numbers of the steps up to this one whose outcomes are kept
//
// Threads: that of the database.
#pragma once

#include <cstdint>

#include "daemon/jobs/sqlite.h"
#include "daemon/lasting/record_values.h"
#include "daemon/lasting/session_log.h"
#include "devices/base/status.h"

namespace leat {

// Replaces the saved state. REQUIRES: a transaction, which the caller rolls back after an error; of
// the steps up to the state's, the rows of the outcomes that are kept are there, and no others.
Status write_state(SqliteDatabase& database, const RecordValues& values, const SavedState& state);
// RecordValues::damaged() if a row was changed, or one is missing, that of a kept outcome too.
Result<SavedState> read_state(SqliteDatabase& database, const RecordValues& values);
// The step of the saved state; 0 if none was saved.
Result<uint64_t> saved_step(SqliteDatabase& database);

}  // namespace leat
