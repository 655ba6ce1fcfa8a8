// Looks into SQLite's write-ahead log before SQLite does.
//
// SQLite takes the log up to the first frame whose checksum is wrong and drops the rest without a
// word: right for the tail that a crash leaves, wrong for a bit that went bad in a transaction that
// was on disk. The two differ: each transaction is synced before the next one is written, so behind
// a torn one there is nothing; and what is torn lacks whole sectors, not a bit. (Sectors that
// differ from what was there before in one bit are rare, and that nothing else is lacking is
// rarer.)
#pragma once

#include <string>

#include "devices/base/files.h"

namespace leat {

// failed_precondition if the log has a damaged frame and a later transaction behind it, a
// transaction that is whole but for one bit, or frames behind a damaged header. Other damage in the
// last transaction cannot be told from a torn tail.
// REQUIRES: all transactions of the log were written with synchronous=FULL.
Status check_journal_log(Files& files, const std::string& path);

}  // namespace leat
