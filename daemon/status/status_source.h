// What the status endpoint shows: a master answers from a snapshot that it keeps.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/jobs/views.h"
#include "daemon/status/metrics_text.h"
#include "devices/base/status.h"

namespace leat {

// Threads: any, several at once. Every call answers at once, from memory: it waits for no journal,
// no disk and no peer.
class StatusSource {
 public:
  virtual ~StatusSource() = default;

  virtual ClusterView cluster() const = 0;
  // In the order of their submission.
  virtual std::vector<JobView> jobs() const = 0;
  // By its id or a prefix of no other. failed_precondition if there is none, invalid_argument, with
  // their ids, if there are several.
  virtual Result<JobView> job(std::string_view id) const = 0;
  // By name; those that were lost too.
  virtual std::vector<NodeView> nodes() const = 0;
  // At most `most` lines from the first that is kept and not before `from`; none yet is ok. Errors
  // as of job().
  virtual Result<LogPage> log(std::string_view id, uint64_t from, size_t most) const = 0;

  // Why no job could be taken now ("the journal: ..."); ok if one could.
  virtual Status ready() const = 0;
  // More for /metrics than follows from the views.
  virtual std::vector<Metric> metrics() const { return {}; }
};

}  // namespace leat
