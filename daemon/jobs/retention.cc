#include "daemon/jobs/retention.h"

namespace leat {

bool forgets_oldest(const Retention& retention, const EndedJobs& ended) {
  if (ended.count == 0) return false;
  if (ended.count > retention.max_jobs) return true;
  if (retention.max_bytes > 0 && ended.bytes > retention.max_bytes) return true;
  return retention.max_age.count() > 0 && ended.oldest > retention.max_age;
}

}  // namespace leat
