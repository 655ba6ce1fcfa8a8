// A run whose files a command reads: a folder of this machine, or a job of a cluster, whose files
// are copied to a temporary folder here.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daemon/base/temporary_folder.h"
#include "daemon/cli/cluster_commands.h"
#include "daemon/cli/cluster_connection.h"
#include "daemon/cli/interrupt.h"
#include "daemon/spec/job.h"
#include "devices/base/status.h"

namespace leat {

// Threads: one. Calls block. The copies are deleted with the object.
class RunPlace {
 public:
  // `options` must outlive it.
  explicit RunPlace(const ClusterOptions& options) : options_(options) {}

  // Finds the run: the folder `name` if there is one; otherwise a job's id, or a prefix of only one
  // id, whose job file and graph are copied. Returns kExitOk, or reports the error and returns the
  // exit code.
  int open(const std::string& name);
  // The folder with job.yaml and the graph.
  const std::string& folder() const { return folder_; }
  // The id of the job; "" for a folder of this machine.
  const std::string& job() const { return job_; }
  // True after Ctrl-C, which ends a command that has opened its run only where it asks for it.
  bool is_interrupted() const { return interrupt() != nullptr && interrupt()->requested(); }
  // REQUIRES: is_interrupted().
  int exit_code_of_interrupt() const { return interrupt()->exit_code(); }

  // The steps of the run's checkpoints, ascending. `job`: of the folder.
  Result<std::vector<int64_t>> checkpoints(const Job& job);
  // The path of that checkpoint's folder here. failed_precondition if the run has none of that step
  // any more.
  Result<std::string> checkpoint(const Job& job, int64_t step);
  // The path of a file of the run's folder; nothing if there is no such file. For a job, each call
  // copies the file again.
  Result<std::optional<std::string>> file(const std::string& name);
  // Deletes the copy of a checkpoint, if it is one.
  void drop(const std::string& checkpoint);
  // The run writes no more checkpoints. A folder counts as ended when its weights are those of its
  // newest checkpoint.
  Result<bool> has_ended(const Job& job);

  // Reports an error and returns its exit code.
  int report(const Status& status) const;

 private:
  int open_job(const std::string& name);
  const Interrupt* interrupt() const {
    return connection_ ? &connection_->interrupt() : interrupt_ ? &*interrupt_ : nullptr;
  }
  Status copy_run();

  const ClusterOptions& options_;
  std::string folder_;
  std::string job_;
  std::optional<Interrupt> interrupt_;  // of a folder; a connection has one of its own
  std::unique_ptr<ClusterConnection> connection_;
  std::unique_ptr<TemporaryFolder> temporary_;
};

}  // namespace leat
