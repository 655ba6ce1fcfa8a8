// The run that a command reads: a folder of this machine, or a job of a cluster, whose files the
// command copies to a temporary folder.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "daemon/base/temporary_folder.h"
#include "daemon/cli/cluster_commands.h"
#include "daemon/cli/cluster_connection.h"
#include "daemon/curves/metrics_table.h"
#include "devices/base/status.h"

namespace leat {

// Threads: one. Calls block. The temporary folder is deleted with the object.
class RunSource {
 public:
  // `options` must outlive it.
  explicit RunSource(const ClusterOptions& options) : options_(options) {}

  // Looks for the run: a folder of that name, else a job's id or a prefix of only one. Returns
  // kExitOk, or reports the error and returns the exit code.
  int open(const std::string& name);
  // The name for people: the folder's last part, or the job's id.
  const std::string& shown() const { return shown_; }
  // The folder here of the run, or of the copies of a job's files.
  const std::string& folder() const { return folder_; }
  // The path of a file of the run, which for a job is copied now. failed_precondition if the run
  // has none, as the job file of a job that waits.
  Result<std::string> bring(const std::string& file);

  // The names of the run's files in a folder of it, "saved/summaries" for instance, and in those
  // below; sorted.
  Result<std::vector<std::string>> files_in(const std::string& folder);

  // Reads metrics.jsonl. A run without one has an empty table.
  Result<MetricsTable> metrics();
  // Reports an error of the functions above under the run's name, and returns the exit code.
  int report(const Status& status) const;

 private:
  const ClusterOptions& options_;
  std::string folder_, shown_;
  std::string job_;  // its id; empty for a folder of this machine
  std::unique_ptr<ClusterConnection> connection_;
  std::unique_ptr<TemporaryFolder> copies_;
};

}  // namespace leat
