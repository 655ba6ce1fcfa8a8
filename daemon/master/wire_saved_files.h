// The files that the graphs of jobs save: leat.Save and leat.Restore on the hosts of a cluster.
// Includes Cap'n Proto: for .cc files.
//
//   <state_dir>/jobs/<id>/saved/...
#pragma once

#include <kj/async.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "daemon/base/task_thread.h"
#include "daemon/master/job_folders.h"
#include "devices/base/files.h"
#include "devices/base/status.h"
#include "transport/rpc/chunks.h"
#include "transport/rpc/loop.h"

namespace leat {

// Threads: the loop's. It has a thread that works on the disk, one task at a time.
class SavedFilesOfJobs {
 public:
  struct Offer {
    BlobInfo info;
    std::shared_ptr<const ReadableFile> file;
  };

  // All outlive it; `files` encrypts if the master has a key. Starts the thread.
  SavedFilesOfJobs(RpcLoop& loop, Files& files, const JobFolders& folders);

  // Receives a file of the job. It is there, whole, when the upload's finish() is ok; until then
  // the job has the file that it had. The permit is released at the end of the upload.
  // resource_exhausted for more than 16 GiB, invalid_argument for a path that leads out of the
  // folder or that no client could fetch; finish() fails with the error of `valid`, if it has one
  // then.
  Result<wire::Upload::Client> receive(const std::string& job, const std::string& path,
                                       const BlobInfo& info, std::shared_ptr<void> permit,
                                       std::function<Status()> valid);
  // Removes all files of the job, with those whose finish() was called before. Blocks, for 115 s at
  // most. Threads: any but the loop's.
  Status forget(const std::string& job);
  // Opens a file of the job and hashes it; nothing if there is none.
  kj::Promise<Result<std::optional<Offer>>> open(const std::string& job, const std::string& path);
  // Lets the client read a file that open() has returned, until the client drops the download.
  wire::Download::Client offer(const Offer& opened, std::shared_ptr<void> permit);

 private:
  RpcLoop& loop_;
  Files& files_;
  const JobFolders& folders_;
  TaskThread disk_{"saved-files"};
  uint64_t received_ = 0;  // counts uploads, for the names of temporary files
};

}  // namespace leat
