// The interface from which the status endpoint gets its data. A master implements it with a
// snapshot of its state.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/curves/growing_curves.h"
#include "daemon/jobs/views.h"
#include "daemon/status/metrics_text.h"
#include "devices/base/status.h"

namespace leat {

// Threads: any, several at once. No call blocks: an implementation answers from memory, and waits
// for no journal, disk or peer.
class StatusSource {
 public:
  virtual ~StatusSource() = default;

  virtual ClusterView cluster() const = 0;
  // Returns the jobs in the order of their submission.
  virtual std::vector<JobView> jobs() const = 0;
  // Rises with every change of a job's view. It is the highest version of all jobs, or higher.
  virtual uint64_t jobs_version() const = 0;
  // Returns the jobs whose version is higher than `version`, in the order of their submission.
  virtual std::vector<JobView> changed_jobs(uint64_t version) const = 0;
  // Finds a job by its id, or by a prefix of only one id. failed_precondition if there is none;
  // invalid_argument, with the ids, if there are several.
  virtual Result<JobView> job(std::string_view id) const = 0;
  // Returns the workers by name, including lost ones.
  virtual std::vector<NodeView> nodes() const = 0;
  // Returns at most `most` lines of a job's log, beginning with the first kept line at or after
  // `from`. A log without lines is no error. Errors as of job().
  virtual Result<LogPage> log(std::string_view id, uint64_t from, size_t most) const = 0;

  // Returns the curves of a job, as far as they are in memory: a later call has more of them. `id`
  // is whole.
  virtual CurvesView curves(const std::string& /*id*/) const { return {}; }

  // Ok if the master could take a job now; otherwise the reason why not ("the journal: ...").
  virtual Status ready() const = 0;
  // Returns metrics that do not follow from the views.
  virtual std::vector<Metric> metrics() const { return {}; }
};

}  // namespace leat
