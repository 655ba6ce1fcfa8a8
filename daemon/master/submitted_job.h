// Unpacks a submitted job into files, reads the job from them, and checks the conditions that a
// cluster adds to those of `leat train`.
//
// Threads: functions that read and write files.
#pragma once

#include <span>
#include <string>

#include "daemon/jobs/blobs.h"
#include "daemon/jobs/records.h"
#include "daemon/spec/job.h"
#include "daemon/status/status_source.h"
#include "devices/base/files.h"
#include "devices/base/status.h"
#include "ops/graph/op.h"

namespace leat {

// The most and the fewest workers that the job leases.
uint32_t workers_of(const Job& job);

// Empties `folder` and writes the attached files there. Does not sync: it can be done again.
// failed_precondition if an uploaded file is missing.
Status unpack(const Submission& submission, const Blobs& blobs, const std::string& folder);

// Reads the job of a submission that was unpacked into `folder`: model.graph and model.weights are
// paths there; data.root is the workers' name for the data set, or a path on them.
// invalid_argument, with places in "job.yaml" and in the attached files, for a job that cannot run
// on a cluster.
Result<Job> read_submitted_job(const Submission& submission, const std::string& folder);

struct CheckedJob {
  Submission submission;  // with the name and the workers of the job file
  std::string data_root;
  std::string evaluates;  // Job::evaluates
};

// Checks the submission as far as it is possible without workers, and returns it. Uses `folder`,
// which must not exist, and removes it.
Result<CheckedJob> check_submitted_job(Files& files, const Catalogue& catalogue, const Blobs& blobs,
                                       Submission submission, const std::string& folder);

// invalid_argument, with a remedy, if there are workers and none of them has the data: a data set
// of that name or path, or a path on this machine, where `files` are. If there are no workers yet,
// the job waits for some that have the data.
Status check_data_root(Files& files, const std::string& data_root, std::span<const NodeView> nodes);

}  // namespace leat
