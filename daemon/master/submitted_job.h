// A job as it was submitted, made into files that a job can be read from; and what a cluster asks
// of a job, beyond what `leat train` does.
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

// Workers that the job leases.
uint32_t workers_of(const Job& job);

// Writes the attached files into `folder`, which is emptied before. Not synced: it can be done
// again. failed_precondition if an uploaded one is not there.
Status unpack(const Submission& submission, const Blobs& blobs, const std::string& folder);

// The job of a submission that was unpacked into `folder`: model.graph and model.weights are paths
// there; data.root is what workers call the data set, or a path on them. invalid_argument, with
// places in "job.yaml" and in the attached files, for what cannot run on a cluster.
Result<Job> read_submitted_job(const Submission& submission, const std::string& folder);

struct CheckedJob {
  Submission submission;  // with what the job file says of name and workers
  std::string data_root;
};

// The submission, once all that can be told without workers is found to be right. Uses `folder`,
// which must not be there, and removes it.
Result<CheckedJob> check_submitted_job(Files& files, const Catalogue& catalogue, const Blobs& blobs,
                                       Submission submission, const std::string& folder);

// invalid_argument, with what to do about it, if there are workers and none of them has the data: a
// data set of that name or path, or any path of this machine, on which `files` are. Workers that
// have it may come later: then the job waits.
Status check_data_root(Files& files, const std::string& data_root, std::span<const NodeView> nodes);

}  // namespace leat
