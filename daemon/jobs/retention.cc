#include "daemon/jobs/retention.h"

namespace leat {

// EndedList::drop() calls this once more after each job that it forgets, so one limit that is
// exceeded by far costs several jobs. max_jobs has no "any" value: 0 keeps none.
bool forgets_oldest(const Retention& retention, const EndedJobs& ended) {
  if (ended.count == 0) return false;
  if (ended.count > retention.max_jobs) return true;
  // The folders' sizes are measured after the jobs end, so `bytes` may still grow.
  if (retention.max_bytes > 0 && ended.bytes > retention.max_bytes) return true;
  return retention.max_age.count() > 0 && ended.oldest > retention.max_age;
}

}  // namespace leat
