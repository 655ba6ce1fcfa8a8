// Where a command finds checkpoints: in a folder of this machine, or with a job of a cluster. Of
// the latter what is looked at is copied here, into a folder that goes with the command.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "daemon/base/temporary_folder.h"
#include "daemon/cli/cluster_commands.h"
#include "daemon/cli/cluster_connection.h"
#include "devices/base/status.h"

namespace leat {

class CheckpointSource {
 public:
  struct Found {
    std::string path;   // of its folder on this machine
    std::string shown;  // what people call it: "path", or "<job>/checkpoints/step-00000040"
  };
  enum class Extent : uint8_t { manifest, whole };

  // `options` outlives it.
  explicit CheckpointSource(const ClusterOptions& options) : options_(options) {}

  // `name`: the folder of a run, of its checkpoints, or of one of them; else, where there is no
  // such path, a job's id or a prefix of no other. kExitOk if there is a checkpoint; else that is
  // reported, and this is the exit code.
  int open(const std::string& name);
  // The newest first.
  const std::vector<Found>& checkpoints() const { return found_; }
  // So much of it is at its path then.
  Status bring(const Found& found, Extent extent);
  // Reports an error of it, under the name that people know; the exit code.
  int report(const Found& found, const Status& status) const;
  std::string message(const Found& found, const Status& status) const;

 private:
  Status open_folder(const std::string& path);
  int open_job(const std::string& name);

  const ClusterOptions& options_;
  std::vector<Found> found_;
  // Of a job.
  std::string job_;
  std::vector<std::string> files_;  // names, relative to the job's folder
  std::unique_ptr<ClusterConnection> connection_;
  std::unique_ptr<TemporaryFolder> folder_;
};

}  // namespace leat
