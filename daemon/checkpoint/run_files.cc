#include "daemon/checkpoint/run_files.h"

#include <algorithm>
#include <filesystem>

#include "daemon/checkpoint/checkpoint_part.h"
#include "daemon/jobs/grammar.h"
#include "ops/data/saved_files.h"

namespace leat {
namespace {

// Adds the files of `folder` and of the folders in it.
void add_run_files(const std::filesystem::path& folder, const std::string& prefix, RunNames names,
                   std::vector<RunFile>& files) {
  namespace fs = std::filesystem;
  std::error_code gone;
  for (auto at = fs::directory_iterator(folder, gone); !gone && at != fs::directory_iterator();
       at.increment(gone)) {
    const std::string last = at->path().filename().string();
    const std::string name = prefix + last;
    // Neither what the client submitted nor a file that is being written is a result of the job.
    const bool is_saved = prefix.starts_with(kSavedFolder);
    if (name == "submitted" || last.ends_with(".tmp") ||
        (last.starts_with(kTemporaryCheckpoint) && !is_saved))
      continue;
    if (!(names == RunNames::all ? is_run_file(name) : is_left_file(name))) continue;
    std::error_code error;
    // A link could lead out of the job's folder, or around in a circle.
    if (at->is_symlink(error)) continue;
    if (at->is_directory(error)) {
      add_run_files(at->path(), name + "/", names, files);
    } else if (at->is_regular_file(error)) {
      const auto size = at->file_size(error);
      if (error) continue;  // it has vanished between the two calls
      const auto changed = at->last_write_time(error);
      if (!error) files.push_back({name, size, changed.time_since_epoch().count()});
    }
  }
}

}  // namespace

bool is_run_file(std::string_view name) {
  if (is_left_file(name)) return true;
  if (!name.starts_with(kSavedFolder)) return false;
  const std::string_view saved = name.substr(kSavedFolder.size());
  // A store may list "a//b" or "a/../b", which are names of no file on a disk.
  return check_saved_path(saved).ok() &&
         std::filesystem::path(saved).lexically_normal().native() == saved;
}

std::vector<RunFile> list_run_files(const std::string& folder, RunNames names) {
  std::vector<RunFile> files;
  add_run_files(folder, "", names, files);
  std::sort(files.begin(), files.end(),
            [](const RunFile& a, const RunFile& b) { return a.name < b.name; });
  return files;
}

}  // namespace leat
