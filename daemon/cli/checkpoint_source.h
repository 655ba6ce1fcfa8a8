// The places where a command finds checkpoints: a folder of this machine or of a store, or a job of
// a cluster.
// For a job, the command copies the checkpoints that it reads to a temporary folder here.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "daemon/base/temporary_folder.h"
#include "daemon/cli/cluster_commands.h"
#include "daemon/cli/cluster_connection.h"
#include "devices/base/status.h"

namespace leat {

// Threads: one. Calls block. The temporary folder is deleted with the object.
//
//   CheckpointSource source(options);
//   if (const int code = source.open(name); code != kExitOk) return code;
//   for (const auto& found : source.checkpoints()) {
//     const Status here = source.bring(found, CheckpointSource::Extent::manifest);
//     ...
class CheckpointSource {
 public:
  // A checkpoint that was found.
  struct Found {
    std::string path;   // of its folder on this machine
    std::string shown;  // its name for people: "path", or "<job>/checkpoints/step-00000040"
  };
  // The files of a checkpoint to copy: only the manifest, or all.
  enum class Extent : uint8_t { manifest, whole };

  // `options` must outlive it.
  explicit CheckpointSource(const ClusterOptions& options) : options_(options) {}

  // Looks for checkpoints. `name` is the folder of a run, of its checkpoints, or of one of them, on
  // a disk or as s3://BUCKET/...; if no such path exists, it is a job's id or a prefix of only one
  // id. Returns kExitOk if there is a checkpoint; otherwise it reports the error and returns the
  // exit code.
  int open(const std::string& name);
  // The same for a job of the cluster alone.
  int open_job(const std::string& name);
  // Returns the checkpoints, the newest first.
  const std::vector<Found>& checkpoints() const { return found_; }
  // Copies these files of the checkpoint to its path, if it belongs to a job. Does nothing for a
  // folder of this machine, and for files that an earlier call has copied. Errors are those of
  // ClusterClient::fetch().
  Status bring(const Found& found, Extent extent);
  // The folder of the run that the checkpoint belongs to, with its job file and graph; "" if it is
  // not known. For a job of the cluster, copies these files to a folder here first.
  Result<std::string> run_of(const Found& found);
  // The path of a file of the run that the checkpoint belongs to, "metrics.jsonl" for instance; ""
  // if the run has none of that name, or is not known. For a job the file is copied to a folder
  // here.
  Result<std::string> file_of_run(const Found& found, const std::string& name);
  // The id of the job; "" for a folder of this machine.
  const std::string& job() const { return job_; }
  // Reports an error of a checkpoint under its name for people, and returns the exit code.
  int report(const Found& found, const Status& status) const;
  // The text of the error, with the name for people in place of the temporary path.
  std::string message(const Found& found, const Status& status) const;

 private:
  // failed_precondition if there is no checkpoint in it.
  Status open_folder(const std::string& path);

  const ClusterOptions& options_;
  std::vector<Found> found_;
  // For a job of the cluster.
  std::string job_;
  std::vector<std::string> files_;  // names, relative to the job's folder
  std::unique_ptr<ClusterConnection> connection_;
  std::unique_ptr<TemporaryFolder> folder_;
};

}  // namespace leat
