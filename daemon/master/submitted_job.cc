#include "daemon/master/submitted_job.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <set>

#include "daemon/checkpoint/check_continues.h"
#include "daemon/checkpoint/checkpoint_store.h"
#include "daemon/jobs/grammar.h"
#include "daemon/master/gpu_plugin.h"
#include "daemon/spec/chaos_fault.h"
#include "daemon/spec/load_graph.h"
#include "daemon/training/export_model.h"
#include "daemon/training/model.h"
#include "daemon/training/run_folder.h"
#include "devices/base/text.h"

namespace leat {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kJobFile = "job.yaml";

// Returns resource_exhausted for a full disk, for which callers wait, and unavailable for the rest.
Status system_error(const fs::path& path, std::string_view what, const std::error_code& error) {
  const std::string text = cat("'", path.string(), "': ", what, " failed: ", error.message());
  const bool full = error == std::errc::no_space_on_device || error.value() == EDQUOT;
  return full ? resource_exhausted(text) : unavailable(text);
}

// Streams report no cause of their own, so `errno` is cleared before and read after.
Status write_plain(const fs::path& path, const std::string& bytes) {
  errno = 0;
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out << bytes;
  out.close();
  if (out.good()) return {};
  const std::error_code error(errno == 0 ? EIO : errno, std::generic_category());
  return system_error(path, cat("writing ", bytes.size(), " bytes on the master"), error);
}

Status unpack(const AttachedFile& file, const Blobs& blobs, const fs::path& path) {
  std::error_code error;
  fs::create_directories(path.parent_path(), error);
  if (error) return system_error(path.parent_path(), "making the folder", error);
  // A small file came with the submit; a large one was uploaded before and is a blob.
  if (file.bytes) return write_plain(path, *file.bytes);
  LEAT_ASSIGN_OR_RETURN(const bool there, blobs.has(file.sha256, file.size));
  if (!there) {
    return failed_precondition(cat("file '", file.name, "' (SHA-256 ", to_hex(file.sha256),
                                   "): expected it to be uploaded before the job is submitted"));
  }
  // No symbolic link: a graph's data is read only where it truly lies beside the graph.
  const fs::path blob = fs::absolute(blobs.path(file.sha256));
  // A link costs no copy. It fails if the blobs are on another file system, and then the file is
  // copied.
  fs::create_hard_link(blob, path, error);
  if (error) fs::copy_file(blob, path, error);
  return error ? system_error(path, "copying an uploaded file", error) : Status();
}

// Removes the folder from the paths in a message, so that files have the names from the submit.
Status without_folder(const Status& status, const std::string& folder) {
  if (status.ok()) return status;
  std::string message = status.message();
  const std::string prefix = fs::absolute(folder).lexically_normal().string() + "/";
  for (size_t at; (at = message.find(prefix)) != std::string::npos;) {
    message.erase(at, prefix.size());
  }
  return Status(status.code(), std::move(message));
}

// Checks that `path`, the value of `key` in the job file, is one of the submitted files. The check
// keeps a job from reading other files of the master.
Status check_attached(const Submission& submission, const std::string& folder, std::string_view key,
                      const std::string& path) {
  if (path.empty()) return {};
  const std::string name = name_below(path, folder);
  std::vector<std::string> names;
  for (const AttachedFile& file : submission.files) {
    if (file.name == name) return {};
    if (!file.name.starts_with(kResumed)) names.push_back(file.name);
  }
  return invalid_argument(cat(kJobFile, ": ", key, ": expected a file that was submitted with the ",
                              "job (", names.empty() ? "there is none" : join(names, ", "),
                              "), received '", name.empty() ? path : name, "'"));
}

// Checks that the job can continue from the checkpoint that was submitted with it, if there is one.
Status check_resumed(Files& files, const Job& job, const std::string& folder) {
  LEAT_ASSIGN_OR_RETURN(const auto came,
                        list_checkpoints(files, cat(folder, "/", kResumed, "checkpoints")));
  if (came.empty()) return {};
  LEAT_ASSIGN_OR_RETURN(const Manifest from, read_manifest(files, came.front()));
  return check_continues(from, job);
}

// Checks the graph's file name, under which clients fetch it from the job's folder.
Status check_graph_name(const std::string& path) {
  const std::string name = fs::path(path).filename().string();
  if (is_left_file(name)) return {};
  return invalid_argument(cat(kJobFile, ": model.graph: expected a file whose name does not begin ",
                              "with '.' and has no control characters, received '", name, "'"));
}

}  // namespace

uint32_t workers_of(const Job& job) { return static_cast<uint32_t>(job.num_workers); }

Status unpack(const Submission& submission, const Blobs& blobs, const std::string& folder) {
  std::error_code error;
  // An earlier attempt, or an earlier assembly, may have left files there.
  fs::remove_all(folder, error);
  if (!error) fs::create_directories(folder, error);
  if (error) return system_error(folder, "making the folder", error);
  for (const AttachedFile& file : submission.files) {
    LEAT_RETURN_IF_ERROR(unpack(file, blobs, fs::path(folder) / file.name));
  }
  return {};
}

Result<Job> read_submitted_job(const Submission& submission, const std::string& folder) {
  JobOverrides overrides;
  overrides.set = submission.overrides;
  auto job = parse_job(submission.text, cat(folder, "/", kJobFile), overrides);
  if (!job.ok()) return without_folder(job.status(), folder);
  LEAT_RETURN_IF_ERROR(check_attached(submission, folder, "model.graph", job->model.graph));
  LEAT_RETURN_IF_ERROR(check_attached(submission, folder, "model.weights", job->model.weights));
  if (!job->checkpoint.path.empty()) {
    return invalid_argument(cat(kJobFile,
                                ": checkpoint.path: expected none in a job of a cluster, "
                                "whose checkpoints are in its own folder, received '",
                                job->checkpoint.path, "'"));
  }
  if (!job->checkpoint.copy_to.empty()) {
    return invalid_argument(cat(kJobFile,
                                ": checkpoint.copy_to: expected none in a job of a cluster, where "
                                "checkpoint_copies of the master's config is the place of copies, "
                                "received '",
                                job->checkpoint.copy_to, "'"));
  }
  // A name, and no path from where the job file happens to be.
  if (std::string name = name_below(job->data.root, folder); !name.empty()) {
    job->data.root = std::move(name);
  }
  // Workers compare the name as text, so one data set must have one spelling.
  while (job->data.root.size() > 1 && job->data.root.ends_with('/')) job->data.root.pop_back();
  return job;
}

Result<CheckedJob> check_submitted_job(Files& files, const Catalogue& catalogue, const Blobs& blobs,
                                       Submission submission, const std::string& folder) {
  std::string data_root, evaluates;
  const auto check = [&]() -> Status {
    // The name and the workers are in the job file, which is read below; the faults name workers.
    if (submission.name.empty()) submission.name = "job";
    submission.num_workers = std::max<uint32_t>(1, submission.num_workers);
    std::vector<std::string> chaos = std::move(submission.chaos);
    submission.chaos.clear();
    LEAT_RETURN_IF_ERROR(check_submission(submission));
    LEAT_RETURN_IF_ERROR(unpack(submission, blobs, folder));
    LEAT_ASSIGN_OR_RETURN(const Job job, read_submitted_job(submission, folder));
    LEAT_RETURN_IF_ERROR(check_graph_name(job.model.graph));
    if (!job.evaluates.empty() && !chaos.empty()) {
      return invalid_argument(
          cat("--chaos: expected none for a job that evaluates another one, "
              "whose steps are those of job '",
              job.evaluates, "', received '", chaos.front(), "'"));
    }
    // The master places the nodes of the job's graph, so it has to know the kernels of GPUs.
    if (job.gpus_per_worker > 0) LEAT_RETURN_IF_ERROR(check_gpu_plugin("resources_per_worker.gpu"));
    // The graph is read in full, so that a job with an invalid one fails here and not on its
    // workers.
    LEAT_ASSIGN_OR_RETURN(const Model model,
                          load_model(files, catalogue, job.model, false, !job.program));
    LEAT_RETURN_IF_ERROR(check_size(job.model.graph, model.training, job.shards));
    LEAT_RETURN_IF_ERROR(check_exports(job, model));
    LEAT_RETURN_IF_ERROR(check_resumed(files, job, folder));
    submission.name = job.name;
    submission.num_workers = workers_of(job);
    submission.min_workers = static_cast<uint32_t>(job.min_workers);
    submission.chaos = std::move(chaos);
    // Faults that the job orders itself do not count against its max_failures.
    for (const std::string& each : submission.chaos) {
      LEAT_RETURN_IF_ERROR(check_chaos(each, submission.num_workers));
    }
    LEAT_ASSIGN_OR_RETURN(const auto faults,
                          chaos_schedule(submission.chaos, submission.num_workers));
    submission.max_restarts =
        static_cast<uint32_t>(job.max_failures) + static_cast<uint32_t>(faults.size());
    evaluates = job.evaluates;
    data_root = job.data.root;
    submission.dataset = data_root;
    submission.gpus = static_cast<uint32_t>(job.gpus_per_worker);
    // The name and the pause came with the submit.
    QueueTerms terms = job.queue;
    terms.user = std::move(submission.terms.user);
    terms.paused = submission.terms.paused;
    submission.terms = std::move(terms);
    return check_submission(submission);
  };
  // The folder goes in any case. The run of the job unpacks the files again, into its own folder.
  const Status status = without_folder(check(), folder);
  std::error_code ignored;
  fs::remove_all(folder, ignored);
  if (!status.ok()) return status;
  return CheckedJob{std::move(submission), std::move(data_root), std::move(evaluates)};
}

Status check_data_root(Files& files, const std::string& data_root,
                       std::span<const NodeView> nodes) {
  std::set<std::string> names;
  bool any_worker = false, on_any_path = false, found = false;
  for (const NodeView& node : nodes) {
    if (node.worker.state == WorkerState::lost) continue;
    any_worker = true;
    for (const std::string& each : node.worker.info.datasets) {
      // A name or path that is listed as it is needs no look at the disk.
      if (each == data_root) found = true;
      if (!each.starts_with('/')) names.insert(each);
    }
    if (has_dataset(node.worker.info.datasets, data_root)) on_any_path = true;
  }
  if (!any_worker || found) return {};
  if (on_any_path) {  // that worker is on this machine
    LEAT_ASSIGN_OR_RETURN(const bool there, files.exists(data_root));
    if (there) return {};
    return invalid_argument(cat(kJobFile, ": data.root: expected a folder of this machine, there ",
                                "is no '", data_root, "'"));
  }
  // The error names the data sets that there are, and the two ways out.
  const std::vector<std::string> offered(names.begin(), names.end());
  return invalid_argument(cat(kJobFile, ": data.root: expected a data set of the workers (",
                              offered.empty() ? "they have none" : join(offered, ", "),
                              "), received '", data_root, "'", did_you_mean(data_root, offered),
                              offered.empty() ? "" : "; write one of these: --set data.root=NAME",
                              offered.empty() ? "; start" : ", or start",
                              " workers with --set datasets.NAME=PATH"));
}

}  // namespace leat
