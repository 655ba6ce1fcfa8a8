// The folders of the jobs on the master's machine, one a job: its checkpoints, its weights, its log
// and the files that were submitted with it.
//
//   <state_dir>/jobs/<id>/...
//
// Threads: any. Every call works on the file system, which may take a while on a slow disk.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "daemon/checkpoint/sealed_files.h"
#include "daemon/jobs/journal.h"
#include "daemon/jobs/records.h"
#include "daemon/master/job_service.h"
#include "devices/base/log.h"
#include "devices/base/status.h"

namespace leat {

class JobFolders {
 public:
  // `folder` holds those of all jobs; it need not exist yet.
  explicit JobFolders(std::string folder) : folder_(std::move(folder)) {}

  const std::string& path() const { return folder_; }
  std::string path_of(const std::string& job) const { return folder_ + "/" + job; }
  // Of the files that the job's graphs save.
  std::string saved_of(const std::string& job) const { return path_of(job) + "/saved"; }
  // The ids that have a folder, whether a job of that id is known or not.
  std::set<std::string, std::less<>> ids() const;

  // The job's files by name, without the submitted ones and those that are being written.
  std::vector<JobFile> files(const std::string& job) const;
  // The same with the sizes that clients fetch: those of the plain bytes. `files` has the keys.
  std::vector<JobFile> fetched_files(const std::string& job, SealedFiles& files) const;
  // The path of one of them. invalid_argument, with a similar name, if the job has no such file.
  Result<std::string> file_path(const std::string& job, const std::string& name) const;
  // The sizes of the job's files, added up.
  uint64_t bytes(const std::string& job) const;

  // Removes the job's folder. unavailable if that fails.
  Status clear(const std::string& job) const;
  // Removes the folders of jobs that the journal has forgotten and whose folders an earlier master
  // did not come to remove, and notes in the journal that it did. A folder whose id is one of
  // `jobs` again stays. Failures are warnings in `log`.
  void clear_forgotten(Journal& journal, const std::vector<StoredJob>& jobs,
                       const Logger& log) const;

 private:
  const std::string folder_;
};

}  // namespace leat
