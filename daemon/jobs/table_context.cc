#include "daemon/jobs/table_context.h"

#include "devices/base/text.h"

namespace leat {

std::string user_for_people(const std::string& user) {
  return user.empty() ? "clients without a name" : cat("'", user, "'");
}

uint64_t JournalWrites::end(const JournalWritten& event, Moment now,
                            std::chrono::milliseconds retry_after) {
  const auto found = in_the_air_.find(event.write);
  // Each write is answered once; a second answer, or one of another life of the table, is dropped.
  if (found == in_the_air_.end()) return 0;
  const uint64_t job = found->second;
  in_the_air_.erase(found);
  status_ = event.status;
  if (!status_.ok()) {
    // All jobs pause, not only this one: the disk is full for each of them.
    held_until_ = now.steady + retry_after;
  } else if (held_until_) {
    held_until_ = now.steady;  // it works again: the next tick goes on
  }
  return job;
}

// JobTable calls this at each Tick, and lets every job decide again when it returns true.
bool JournalWrites::resume(Moment now) {
  if (!held_until_ || now.steady < *held_until_) return false;
  held_until_.reset();
  return true;
}

void TableContext::refuse(const FaultAsked& event, std::string_view why) {
  answer(event.ticket, failed_precondition(cat("fault '", event.fault, "': ", why)));
}

}  // namespace leat
