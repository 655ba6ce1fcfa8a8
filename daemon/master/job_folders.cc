#include "daemon/master/job_folders.h"

#include <algorithm>
#include <filesystem>

#include "daemon/checkpoint/run_files.h"
#include "devices/base/files.h"
#include "devices/base/text.h"

namespace leat {

std::set<std::string, std::less<>> JobFolders::ids() const {
  const auto names = real_files().list(folder_);
  if (!names.ok()) return {};  // the folder does not exist yet
  return {names->begin(), names->end()};
}

std::vector<JobFile> JobFolders::files(const std::string& job) const {
  std::vector<JobFile> files;
  for (RunFile& file : list_run_files(path_of(job)))
    files.push_back({std::move(file.name), file.size});
  return files;
}

std::vector<JobFile> JobFolders::fetched_files(const std::string& job, SealedFiles& files) const {
  std::vector<JobFile> out = this->files(job);
  if (!files.seals()) return out;
  for (JobFile& file : out) {
    const std::string path = cat(path_of(job), "/", file.name);
    if (!files.may_be_sealed(path)) continue;
    const auto size = files.plain_size(path);
    if (size.ok()) file.size = *size;
  }
  return out;
}

Result<std::string> JobFolders::file_path(const std::string& job, const std::string& name) const {
  std::vector<std::string> names;
  // Only a name from the list is taken, so no name with ".." leads to another folder.
  for (const JobFile& file : files(job)) {
    if (file.name == name) return cat(path_of(job), "/", name);
    names.push_back(file.name);
  }
  return invalid_argument(
      cat("job '", job, "' has no file '", name, "'", did_you_mean(name, names)));
}

uint64_t JobFolders::bytes(const std::string& job) const {
  uint64_t bytes = 0;
  for (const JobFile& file : files(job)) bytes += file.size;
  return bytes;
}

Status JobFolders::clear(const std::string& job) const {
  std::error_code error;
  std::filesystem::remove_all(path_of(job), error);
  if (!error) return {};
  return unavailable(cat("removing the folder of job ", job, ": ", error.message()));
}

void JobFolders::clear_forgotten(Journal& journal, const std::vector<StoredJob>& jobs,
                                 const Logger& log) const {
  // These are jobs that the journal has removed, but whose folders may still be there.
  const auto forgotten = journal.forgotten_jobs();
  if (!forgotten.ok()) return log.warning(forgotten.status().message());
  for (const std::string& job : *forgotten) {
    // A job that lives may have the id by now; its folder must stay.
    const bool is_another = std::any_of(jobs.begin(), jobs.end(),
                                        [&](const StoredJob& each) { return each.id == job; });
    Status status = is_another ? Status() : clear(job);
    if (status.ok()) status = journal.append(JobCleared{job});
    if (!status.ok()) log.warning(status.message());
  }
}

}  // namespace leat
