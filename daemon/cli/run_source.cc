#include "daemon/cli/run_source.h"

#include <algorithm>
#include <filesystem>

#include "daemon/base/exit_code.h"
#include "daemon/base/terminal.h"
#include "daemon/checkpoint/run_files.h"
#include "devices/base/files.h"
#include "devices/base/text.h"

namespace leat {
namespace {

constexpr const char* kMetricsFile = "metrics.jsonl";
// A log of 20 million steps has less.
constexpr uint64_t kMostBytes = uint64_t{4} << 30;

}  // namespace

int RunSource::open(const std::string& name) {
  const auto here = real_files().exists(name);
  // The id of a job has neither '/' nor '.'.
  const bool is_path = name.find_first_of("/.") != std::string::npos;
  if ((here.ok() && *here) || is_path) {
    if (report_missing("run", name, options_.color)) return kExitNoSuch;
    folder_ = name.substr(0, name.find_last_not_of('/') + 1);
    shown_ = std::filesystem::path(folder_).filename().string();
    return kExitOk;
  }
  connection_ = std::make_unique<ClusterConnection>(options_);
  if (const int code = connection_->open(); code != kExitOk) return code;
  const auto job = connection_->client().job(name);
  if (!job.ok()) return connection_->report(job.status(), About::name);
  auto copies = TemporaryFolder::make("leat-run");
  if (!copies.ok()) return leat::report(copies.status(), options_.color);
  copies_ = std::move(copies).value();
  folder_ = copies_->path();
  shown_ = job_ = job->id;
  return kExitOk;
}

Result<std::string> RunSource::bring(const std::string& file) {
  const std::string path = cat(folder_, "/", file);
  LEAT_ASSIGN_OR_RETURN(const bool here, real_files().exists(path));
  if (here) return path;
  if (job_.empty()) {
    return failed_precondition(cat("'", folder_, "': expected the folder of a run, with ", file,
                                   ", found no such file in it"));
  }
  return connection_->client().fetch(job_, file, folder_);
}

Result<std::vector<std::string>> RunSource::files_in(const std::string& folder) {
  const std::string prefix = folder + "/";
  std::vector<std::string> names;
  const auto take = [&](const std::string& name) {
    if (name.starts_with(prefix)) names.push_back(name);
  };
  if (job_.empty()) {
    for (const RunFile& file : list_run_files(folder_)) take(file.name);
    return names;
  }
  LEAT_ASSIGN_OR_RETURN(const auto all, connection_->client().files(job_));
  for (const RemoteFile& file : all) take(file.name);
  std::sort(names.begin(), names.end());
  return names;
}

Result<MetricsTable> RunSource::metrics() {
  const auto path = bring(kMetricsFile);
  if (!path.ok()) return path.status();
  LEAT_ASSIGN_OR_RETURN(const Bytes text, read_file(real_files(), *path, kMostBytes));
  return parse_metrics({reinterpret_cast<const char*>(text.data()), text.size()});
}

int RunSource::report(const Status& status) const {
  if (connection_) return connection_->report(status.while_doing(shown_), About::name);
  return leat::report(status, options_.color);
}

}  // namespace leat
