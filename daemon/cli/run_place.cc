#include "daemon/cli/run_place.h"

#include <algorithm>
#include <charconv>
#include <set>

#include "daemon/base/exit_code.h"
#include "daemon/base/terminal.h"
#include "daemon/checkpoint/checkpoint_store.h"
#include "daemon/cli/run_files.h"
#include "daemon/spec/load_graph.h"
#include "daemon/training/run_folder.h"
#include "daemon/training/run_weights.h"
#include "devices/base/text.h"

namespace leat {
namespace {}  // namespace

int RunPlace::open(const std::string& name) {
  const auto here = real_files().exists(name);
  // The id of a job contains neither of these characters.
  const bool is_path = name.find_first_of("/.") != std::string::npos;
  if (here.ok() && !*here && !is_path) return open_job(name);
  if (report_missing("run", name + "/job.yaml", options_.color)) return kExitNoSuch;
  interrupt_.emplace();
  folder_ = name.substr(0, name.find_last_not_of('/') + 1);
  if (folder_.empty()) folder_ = name;
  return kExitOk;
}

int RunPlace::open_job(const std::string& name) {
  connection_ = std::make_unique<ClusterConnection>(options_);
  if (const int code = connection_->open(); code != kExitOk) return code;
  const auto job = connection_->client().job(name);
  if (!job.ok()) return connection_->report(job.status(), About::name);
  job_ = job->id;
  auto folder = TemporaryFolder::make("leat-run");
  if (!folder.ok()) return leat::report(folder.status(), options_.color);
  temporary_ = std::move(folder).value();
  folder_ = temporary_->path();
  const Status copied = copy_run();
  return copied.ok() ? kExitOk : connection_->report(copied, About::state);
}

// Copies the job file and the graph.
Status RunPlace::copy_run() {
  LEAT_ASSIGN_OR_RETURN(const auto all, connection_->client().files(job_));
  bool has_job = false;
  for (const RemoteFile& file : all) {
    const bool nested = file.name.find('/') != std::string::npos;
    const bool graph = file.name.starts_with(kRunGraphs) || (!nested && is_graph_file(file.name));
    has_job = has_job || file.name == "job.yaml";
    if (file.name == "job.yaml" || graph)
      LEAT_RETURN_IF_ERROR(connection_->client().fetch(job_, file.name, folder_).status());
  }
  if (has_job) return {};
  return failed_precondition(
      cat("job '", job_, "': expected one that trains, it has not begun yet"));
}

Result<std::vector<int64_t>> RunPlace::checkpoints(const Job& job) {
  std::set<int64_t> steps;
  if (connection_) {
    LEAT_ASSIGN_OR_RETURN(const auto all, connection_->client().files(job_));
    constexpr std::string_view kFolder = "checkpoints/";
    for (const RemoteFile& file : all) {
      // The manifest is written last.
      if (!file.name.starts_with(kFolder) || !file.name.ends_with(kManifestName)) continue;
      steps.insert(step_of_checkpoint(directory_of(file.name).substr(kFolder.size())));
    }
  } else {
    LEAT_ASSIGN_OR_RETURN(const auto paths,
                          list_checkpoints(real_files(), checkpoints_path(job, folder_)));
    for (const std::string& path : paths)
      steps.insert(step_of_checkpoint(path.substr(path.rfind('/') + 1)));
  }
  steps.erase(-1);
  return std::vector<int64_t>(steps.begin(), steps.end());
}

Result<std::string> RunPlace::checkpoint(const Job& job, int64_t step) {
  const std::string name = checkpoint_name(step);
  if (!connection_) {
    const std::string path = cat(checkpoints_path(job, folder_), "/", name);
    LEAT_ASSIGN_OR_RETURN(const bool there, real_files().exists(path));
    if (there) return path;
    return failed_precondition(cat("'", path, "': expected a checkpoint, there is none"));
  }
  const std::string folder = cat("checkpoints/", name);
  LEAT_ASSIGN_OR_RETURN(const auto all, connection_->client().files(job_));
  bool found = false;
  for (const RemoteFile& file : all) {
    if (!file.name.starts_with(folder + "/")) continue;
    const Status copied = connection_->client().fetch(job_, file.name, folder_).status();
    // The job removes old checkpoints meanwhile.
    if (copied.code() == Code::invalid_argument) return failed_precondition(copied.message());
    LEAT_RETURN_IF_ERROR(copied);
    found = true;
  }
  if (found) return cat(folder_, "/", folder);
  return failed_precondition(
      cat("job '", job_, "': expected a checkpoint of step ", step, ", there is none"));
}

Result<std::optional<std::string>> RunPlace::file(const std::string& name) {
  if (connection_) {
    LEAT_ASSIGN_OR_RETURN(const auto all, connection_->client().files(job_));
    const bool there = std::any_of(all.begin(), all.end(),
                                   [&](const RemoteFile& file) { return file.name == name; });
    if (!there) return std::optional<std::string>();
    LEAT_ASSIGN_OR_RETURN(std::string path, connection_->client().fetch(job_, name, folder_));
    return std::optional(std::move(path));
  }
  std::string path = cat(folder_, "/", name);
  LEAT_ASSIGN_OR_RETURN(const bool there, real_files().exists(path));
  return there ? std::optional(std::move(path)) : std::nullopt;
}

void RunPlace::drop(const std::string& checkpoint) {
  if (connection_) (void)real_files().remove_all(checkpoint);
}

Result<bool> RunPlace::has_ended(const Job& job) {
  if (connection_) {
    LEAT_ASSIGN_OR_RETURN(const JobView view, connection_->client().job(job_));
    return leat::has_ended(view.condition.state);
  }
  LEAT_ASSIGN_OR_RETURN(const auto weights, file("weights.safetensors"));
  if (!weights) return false;
  LEAT_ASSIGN_OR_RETURN(const auto step, step_of_weights(run_files(), *weights));
  LEAT_ASSIGN_OR_RETURN(const auto steps, checkpoints(job));
  return step && (steps.empty() || *step >= steps.back());
}

int RunPlace::report(const Status& status) const {
  if (connection_) return connection_->report(status, About::state);
  return leat::report(status, options_.color);
}

}  // namespace leat
