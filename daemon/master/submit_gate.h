// The gate between submissions and the table of jobs. It admits or refuses a submission at once,
// then checks it on the disk's thread, and passes it to the table if it is valid.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>

#include "daemon/jobs/records.h"
#include "daemon/jobs/views.h"
#include "daemon/master/master_parts.h"
#include "devices/base/status.h"

namespace leat {

// Threads: any. `done` is called once, on any thread; errors name the place in the job file.
class SubmitGate {
 public:
  using Done = std::function<void(Result<JobView>)>;

  // `parts` outlives it.
  explicit SubmitGate(MasterParts& parts) : parts_(parts) {}

  // resource_exhausted if too many wait for their check; failed_precondition for a chaos that the
  // cluster does not allow; the journal's failure if it cannot be written.
  void submit(Submission submission, Done done);
  // The same for a job that goes on from the newest whole checkpoint of `job`, an id or a prefix of
  // no other one. A repeated request goes on from the checkpoint that it began with.
  void resume(std::string job, Submission submission, Done done);

  // Empties the folder in which submissions are unpacked for their check, for an earlier master may
  // have left files there.
  void clear_checks() const;

 private:
  Status admit(const Submission& submission) const;
  void check(Submission submission, Done done);
  // invalid_argument unless the cluster has a job of that id, and it trains.
  // `only`: as Submission::sees_only.
  Status check_followed(const std::string& job, const std::optional<std::string>& only);
  void resume_checked(const std::string& job, Submission submission, Done done);
  Result<std::string> job_of_request(const Submission& submission);
  std::string checks_folder() const { return parts_.config.state_dir + "/checks"; }

  MasterParts& parts_;
  std::atomic<uint64_t> checks_begun_{0};
};

}  // namespace leat
