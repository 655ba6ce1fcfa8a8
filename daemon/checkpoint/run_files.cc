#include "daemon/checkpoint/run_files.h"

#include <algorithm>
#include <filesystem>

#include "daemon/checkpoint/checkpoint_part.h"
#include "daemon/jobs/grammar.h"

namespace leat {
namespace {

// Adds the files of `folder` and of the folders in it.
void add_run_files(const std::filesystem::path& folder, const std::string& prefix,
                   std::vector<RunFile>& files) {
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
      add_run_files(at->path(), name + "/", files);
    } else if (at->is_regular_file(error)) {
      const auto size = at->file_size(error);
      if (error) continue;  // it has vanished between the two calls
      const auto changed = at->last_write_time(error);
      if (!error) files.push_back({name, size, changed.time_since_epoch().count()});
    }
  }
}

}  // namespace

std::vector<RunFile> list_run_files(const std::string& folder) {
  std::vector<RunFile> files;
  add_run_files(folder, "", files);
  std::sort(files.begin(), files.end(),
            [](const RunFile& a, const RunFile& b) { return a.name < b.name; });
  return files;
}

}  // namespace leat
