// The jobs that one client sees. With jobs_visible: own, a viewer or submitter sees those of its
// own name alone, and every other job is for it as if it did not exist.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/status/status_source.h"
#include "daemon/traces/diagnosis.h"
#include "devices/base/status.h"
#include "transport/rpc/grant.h"

namespace leat {

// The name whose jobs alone a client with this grant sees; nothing if it sees all.
std::optional<std::string> sees_only(const Grant& grant, bool own_jobs_alone);

// The id of the job among those of `user` that has this id, or a prefix of it that no other one of
// them has. Errors as of StatusSource::job() of a cluster without the jobs of others.
Result<std::string> find_job_of(const std::vector<JobView>& jobs, std::string_view user,
                                std::string_view named);

// A value with a reference. Every answer of ClientService about jobs goes through it. Threads: any.
class VisibleJobs {
 public:
  // `status` outlives it. `only`: as sees_only() returns.
  VisibleJobs(const StatusSource& status, std::optional<std::string> only)
      : status_(status), only_(std::move(only)) {}

  // The id of the job that a client names by it or by a prefix. For a client that sees all jobs,
  // the name as it is: the job is looked up where it is used. Errors as of find_job_of().
  Result<std::string> id_of(const std::string& named) const;
  // The jobs and the workers, as the client sees them.
  std::vector<JobView> jobs() const;
  std::vector<NodeView> nodes() const;
  // Takes from an answer what it tells of the jobs of others: their ids become "another job".
  JobView shown(JobView view) const;
  Diagnosis shown(Diagnosis diagnosis) const;
  // Of the lines that the master has written.
  LogPage shown(LogPage page) const;
  // As sees_only() returned it.
  const std::optional<std::string>& only() const { return only_; }

 private:
  class Others;

  const StatusSource& status_;
  const std::optional<std::string> only_;
};

}  // namespace leat
