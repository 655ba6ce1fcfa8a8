#include "daemon/cli/checkpoint_source.h"

#include <algorithm>

#include "daemon/base/exit_code.h"
#include "daemon/base/terminal.h"
#include "daemon/checkpoint/checkpoint_store.h"
#include "daemon/cli/pack_job.h"
#include "devices/base/files.h"
#include "devices/base/text.h"
#include "ops/data/stores/store_files.h"

namespace leat {
namespace {

// The names of a job's checkpoints among its files.
constexpr std::string_view kStepFolder = "checkpoints/step-";

// Returns "checkpoints/step-00000040" for a file in that folder; "" for another file.
std::string checkpoint_of(const std::string& file) {
  return file.starts_with(kStepFolder) ? directory_of(file) : "";
}

// The id of a job contains neither of these characters.
bool is_path(const std::string& name) { return name.find_first_of("/.") != std::string::npos; }

}  // namespace

int CheckpointSource::open(const std::string& name) {
  // A name that exists here is a folder. Only a name that could be an id is looked for on the
  // cluster, so a mistyped path does not become an error about a connection.
  if (!is_store_path(name)) {
    const auto here = real_files().exists(name);
    if (here.ok() && !*here && !is_path(name)) return open_job(name);
    if (report_missing("run or checkpoint", name, options_.color)) return kExitNoSuch;
  }
  const Status opened = open_folder(name);
  return opened.ok() ? kExitOk : leat::report(opened, options_.color);
}

Status CheckpointSource::open_folder(const std::string& path) {
  Files& files = store_files();
  // Without slashes at the end, which would double in the names that people see.
  const std::string folder = path.substr(0, path.find_last_not_of('/') + 1);
  // Only a checkpoint has a manifest, and only a run has a folder of checkpoints. Any other folder
  // is taken as a folder of checkpoints itself.
  LEAT_ASSIGN_OR_RETURN(const bool is_one, files.exists(folder + "/" + kManifestName));
  if (is_one) {
    found_ = {{folder, folder}};
    return {};
  }
  LEAT_ASSIGN_OR_RETURN(const bool is_run, files.exists(folder + "/checkpoints"));
  LEAT_ASSIGN_OR_RETURN(const auto paths,
                        list_checkpoints(files, is_run ? folder + "/checkpoints" : folder));
  for (const std::string& each : paths) found_.push_back({each, each});
  if (!found_.empty()) return {};
  return failed_precondition(cat("'", path,
                                 "': expected the folder of a run or a checkpoint, "
                                 "found no checkpoint in it"));
}

int CheckpointSource::open_job(const std::string& name) {
  connection_ = std::make_unique<ClusterConnection>(options_);
  if (const int code = connection_->open(); code != kExitOk) return code;
  const auto job = connection_->client().job(name);
  if (!job.ok()) return connection_->report(job.status(), About::name);
  const auto files = connection_->client().files(job->id);
  if (!files.ok()) return connection_->report(files.status(), About::name);
  auto folder = TemporaryFolder::make("leat-checkpoints");
  if (!folder.ok()) return leat::report(folder.status(), options_.color);
  folder_ = std::move(folder).value();
  job_ = job->id;
  // The list is in the order of the names, so backwards the newest checkpoint comes first, and the
  // files of each are beside each other.
  for (auto file = files->rbegin(); file != files->rend(); ++file) {
    files_.push_back(file->name);
    const std::string checkpoint = checkpoint_of(file->name);
    if (checkpoint.empty()) continue;
    Found found{cat(folder_->path(), "/", checkpoint), cat(job_, "/", checkpoint)};
    if (found_.empty() || found_.back().path != found.path) found_.push_back(std::move(found));
  }
  if (!found_.empty()) return kExitOk;
  return connection_->report(
      failed_precondition(cat("job '", job_, "': expected a checkpoint, it has left none yet")),
      About::state);
}

Status CheckpointSource::bring(const Found& found, Extent extent) {
  // For a folder of this machine there are no files in the list, and nothing to copy.
  for (const std::string& file : files_) {
    const std::string checkpoint = checkpoint_of(file);
    if (checkpoint.empty() || cat(job_, "/", checkpoint) != found.shown) continue;
    if (extent == Extent::manifest && !file.ends_with(kManifestName)) continue;
    const std::string path = cat(folder_->path(), "/", file);
    LEAT_ASSIGN_OR_RETURN(const bool here, real_files().exists(path));
    // An earlier call has copied it: first the manifest alone, then the rest.
    if (here) continue;
    LEAT_RETURN_IF_ERROR(connection_->client().fetch(job_, file, folder_->path()).status());
  }
  return {};
}

// A checkpoint is in the folder "checkpoints" of its run, unless its job named another place.
Result<std::string> CheckpointSource::run_of(const Found& found) {
  if (!job_.empty()) {
    LEAT_RETURN_IF_ERROR(fetch_job(connection_->client(), job_, folder_->path()));
    return folder_->path();
  }
  const std::string checkpoints = directory_of(found.path), run = directory_of(checkpoints);
  if (checkpoints != "checkpoints" && !checkpoints.ends_with("/checkpoints")) return std::string();
  if (is_store_path(run)) return std::string();
  LEAT_ASSIGN_OR_RETURN(const bool is_run, real_files().exists(run + "/job.yaml"));
  return is_run ? run : "";
}

Result<std::string> CheckpointSource::file_of_run(const Found& found, const std::string& name) {
  if (!job_.empty()) {
    if (std::find(files_.begin(), files_.end(), name) == files_.end()) return std::string();
    LEAT_RETURN_IF_ERROR(connection_->client().fetch(job_, name, folder_->path()).status());
    return cat(folder_->path(), "/", name);
  }
  const std::string checkpoints = directory_of(found.path);
  if (checkpoints != "checkpoints" && !checkpoints.ends_with("/checkpoints")) return std::string();
  std::string path = cat(directory_of(checkpoints), "/", name);
  LEAT_ASSIGN_OR_RETURN(const bool there, store_files().exists(path));
  return there ? path : "";
}

std::string CheckpointSource::message(const Found& found, const Status& status) const {
  std::string text = status.message();
  // The error names the temporary folder, which says nothing to people. They know the job's name.
  if (found.path == found.shown) return text;
  for (size_t at = 0; (at = text.find(found.path, at)) != std::string::npos;)
    text.replace(at, found.path.size(), found.shown);
  return text;
}

int CheckpointSource::report(const Found& found, const Status& status) const {
  return leat::report(Status(status.code(), message(found, status)), options_.color);
}

}  // namespace leat
