#include "daemon/master/job_folders.h"

#include <algorithm>
#include <filesystem>

#include "daemon/checkpoint/checkpoint_part.h"
#include "daemon/jobs/grammar.h"
#include "devices/base/files.h"
#include "devices/base/text.h"

namespace leat {
namespace {

// Adds the files of `folder` and of the folders in it. A folder that does not exist, or vanishes
// meanwhile, adds none.
void list_files(const std::filesystem::path& folder, const std::string& prefix,
                std::vector<JobFile>& files) {
  namespace fs = std::filesystem;
  std::error_code gone;
  for (auto at = fs::directory_iterator(folder, gone); !gone && at != fs::directory_iterator();
       at.increment(gone)) {
    const std::string last = at->path().filename().string();
    const std::string name = prefix + last;
    // Neither what the client submitted nor a file that is being written is a result of the job.
    if (name == "submitted" || last.ends_with(".tmp") || last.starts_with(kTemporaryCheckpoint))
      continue;
    if (!is_left_file(name)) continue;  // no client takes it
    std::error_code error;
    // A link could lead out of the job's folder, or around in a circle.
    if (at->is_symlink(error)) continue;
    if (at->is_directory(error)) {
      list_files(at->path(), name + "/", files);
    } else if (at->is_regular_file(error)) {
      const auto size = at->file_size(error);
      // A file that vanishes between the two calls is left out.
      if (!error) files.push_back({name, size});
    }
  }
}

}  // namespace

std::set<std::string, std::less<>> JobFolders::ids() const {
  const auto names = real_files().list(folder_);
  if (!names.ok()) return {};  // the folder does not exist yet
  return {names->begin(), names->end()};
}

std::vector<JobFile> JobFolders::files(const std::string& job) const {
  std::vector<JobFile> files;
  list_files(path_of(job), "", files);
  std::sort(files.begin(), files.end(),
            [](const JobFile& a, const JobFile& b) { return a.name < b.name; });
  return files;
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
