// Prepares a job file, and the files that it names, for a submit to a master.
#pragma once

#include <string>
#include <vector>

#include "daemon/cli/commands.h"
#include "daemon/client/cluster_client.h"
#include "daemon/spec/job.h"
#include "devices/base/files.h"
#include "devices/base/status.h"

namespace leat {

// A job that is ready to be submitted.
struct PackedJob {
  Job job;  // as read on this machine
  JobRequest request;
  std::vector<std::string> notes;  // for people, about graph and checkpoints
};

// A job file that was read once: the text that is sent, and the job that it says.
struct JobText {
  std::string text;
  Job job;
};
// Errors are those of load_job().
Result<JobText> read_whole_job(const JobOptions& options);

// Checks the job and its graph as far as possible without its data, which only the workers have,
// and collects the files to send: the graph as graph/NAME, with the external data of an ONNX model
// beside it, and the weights as weights/NAME. The text of the job is sent unchanged; overrides give
// the files their new names. REQUIRES: job file, graph and weights exist.
Result<PackedJob> pack_job(JobText file, const JobOptions& options, Files& files);

// Prepares the job of a run's folder with its newest valid checkpoint (as resume/checkpoints/...)
// and its metrics, which the cluster continues: see daemon/master/resumed_job.h. Notes name damaged
// checkpoints. failed_precondition if no checkpoint is valid.
Result<PackedJob> pack_run(const std::string& folder, const JobOverrides& overrides, Files& files);

// Copies the job file and the graph of a job on the cluster to `folder`. failed_precondition if the
// job has left none yet, or no checkpoint although it `needs_checkpoint`.
Status fetch_job(ClusterClient& client, const std::string& id, const std::string& folder,
                 bool needs_checkpoint = true);
// Prepares a job that fetch_job() copied, to continue from the checkpoint that the job has on the
// cluster.
Result<PackedJob> pack_fetched(const std::string& id, const std::string& folder,
                               const JobOverrides& overrides, Files& files);

// A job of the cluster whose checkpoints another one evaluates.
struct Followed {
  std::string id;
  int64_t priority = 0;  // above kLeastPriority, so that the other one can be below it
};
// Prepares a job that evaluates the checkpoints of a job which fetch_job() copied: on one worker,
// with that job's validation data and nothing of its training. invalid_argument if it cannot be
// evaluated.
Result<PackedJob> pack_evaluation(const Followed& followed, const std::string& folder,
                                  const JobOverrides& overrides, Files& files);
// The same from a job file: adds to `set` the changes that make such a job of it. The user's own
// changes count, but for what an evaluation needs.
Status add_evaluation(const Followed& followed, const Job& job, std::vector<std::string>& set);

}  // namespace leat
