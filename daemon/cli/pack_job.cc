#include "daemon/cli/pack_job.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <utility>

#include "daemon/checkpoint/checkpoint_store.h"
#include "daemon/load_graph.h"
#include "daemon/trainer.h"
#include "devices/base/forwarding_files.h"
#include "devices/base/text.h"
#include "ops/catalogue.h"
#include "ops/layers/layers.h"

namespace leat {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMaxJobFile = 1u << 20;

// Knows what was opened.
class WatchedFiles final : public ForwardingFiles {
 public:
  using ForwardingFiles::ForwardingFiles;
  const std::set<std::string>& opened() const { return opened_; }
  Result<std::unique_ptr<ReadableFile>> open(const std::string& path) override {
    opened_.insert(path);
    return files_.open(path);
  }

 private:
  std::set<std::string> opened_;
};

// As a YAML scalar in double quotes.
std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + "\"";
}

// What --workers and --seed change, as --set would. --workers leaves the shards as they are.
void add_overrides(const JobOptions& options, const Job& job, std::vector<std::string>& out) {
  out = options.overrides.set;
  if (options.overrides.num_workers) {
    out.push_back(cat("shards=", job.shards));
    out.push_back(options.overrides.min_workers
                      ? cat("num_workers=[", *options.overrides.min_workers, ", ",
                            *options.overrides.num_workers, "]")
                      : cat("num_workers=", *options.overrides.num_workers));
  }
  if (options.overrides.seed) out.push_back(cat("seed=", *options.overrides.seed));
}

// The graph, and the external data that lies in its folder or below.
Status attach_graph(const std::string& path, const std::set<std::string>& opened,
                    JobRequest& request) {
  const std::string name = "graph/" + fs::path(path).filename().string();
  request.files.push_back({name, path});
  request.overrides.push_back("model.graph=" + quoted(name));
  std::error_code failure;
  const fs::path folder = fs::canonical(fs::path(path).parent_path(), failure);
  for (const std::string& each : opened) {
    if (each == path) continue;
    const fs::path inside = fs::path(each).lexically_relative(folder);
    if (failure || inside.empty() || *inside.begin() == "..") {
      return invalid_argument(
          cat("graph file '", path, "': expected its data beside it, it is '", each, "'"));
    }
    request.files.push_back({"graph/" + inside.string(), each});
  }
  return {};
}

Status add_graph(Files& files, PackedJob& packed) {
  const std::string& path = packed.job.model.graph;
  const Catalogue catalogue = standard_catalogue();
  WatchedFiles watched(files);
  LEAT_ASSIGN_OR_RETURN(LoadedGraph graph, load_graph(watched, path, catalogue, true));
  packed.notes.insert(packed.notes.end(), graph.notes.begin(), graph.notes.end());
  const auto expanded = expand_layers(graph.graph);
  if (!expanded.ok()) return expanded.status().while_doing(cat("checking '", path, "'"));
  return attach_graph(path, watched.opened(), packed.request);
}

// The newest that is whole.
Status add_checkpoint(Files& files, const std::string& folder, PackedJob& packed) {
  LEAT_ASSIGN_OR_RETURN(const auto paths, list_checkpoints(files, folder));
  std::vector<std::string> damaged;
  for (const std::string& path : paths) {
    const auto manifest = verify_checkpoint(files, path);
    if (!manifest.ok()) {
      damaged.push_back(manifest.status().message());
      packed.notes.push_back("a checkpoint was passed over: " + damaged.back());
      continue;
    }
    LEAT_ASSIGN_OR_RETURN(const auto names, files.list(path));
    for (const std::string& name : names) {
      packed.request.files.push_back(
          {cat(kResumed, "checkpoints/", checkpoint_name(manifest->step), "/", name),
           cat(path, "/", name)});
    }
    return {};
  }
  return failed_precondition(cat("'", folder, "': expected a checkpoint that is whole, found ",
                                 damaged.empty() ? "none" : join(damaged, "; ")));
}

// A name of a data set is no path beside the job file.
std::string data_root_of(const Job& job, const std::string& folder) {
  const fs::path inside = fs::path(job.data.root).lexically_relative(fs::absolute(folder));
  const bool below = !inside.empty() && *inside.begin() != "..";
  std::error_code failure;
  return below && !fs::exists(job.data.root, failure) ? inside.string() : job.data.root;
}

// What a run's folder has of its job, and where its checkpoints are.
struct PackedRun {
  PackedJob packed;
  std::string checkpoints;
};

Result<PackedRun> pack_folder(const std::string& folder, const JobOverrides& overrides,
                              Files& files) {
  PackedRun run;
  PackedJob& packed = run.packed;
  LEAT_ASSIGN_OR_RETURN(packed.job, load_run_job(files, folder, overrides));
  Job& job = packed.job;
  const std::string copy = cat(folder, "/", fs::path(job.model.graph).filename().string());
  LEAT_ASSIGN_OR_RETURN(const bool has_copy, files.exists(copy));
  if (has_copy) job.model.graph = copy;
  const std::string own = std::exchange(job.checkpoint.path, "");
  run.checkpoints = own.empty() ? folder + "/checkpoints" : own;
  job.model.weights.clear();  // they are in the checkpoint
  job.data.root = data_root_of(job, folder);
  packed.request.request_id = new_request_id();
  packed.request.text = print_job(job);
  LEAT_RETURN_IF_ERROR(add_graph(files, packed));
  return run;
}

}  // namespace

Result<PackedJob> pack_run(const std::string& folder, const JobOverrides& overrides, Files& files) {
  LEAT_ASSIGN_OR_RETURN(PackedRun run, pack_folder(folder, overrides, files));
  LEAT_RETURN_IF_ERROR(add_checkpoint(files, run.checkpoints, run.packed));
  const std::string metrics = folder + "/metrics.jsonl";
  LEAT_ASSIGN_OR_RETURN(const bool has_metrics, files.exists(metrics));
  if (has_metrics) run.packed.request.files.push_back({cat(kResumed, "metrics.jsonl"), metrics});
  return std::move(run.packed);
}

// The master has the checkpoint, and the metrics: they stay there.
Status fetch_job(ClusterClient& client, const std::string& id, const std::string& folder) {
  LEAT_ASSIGN_OR_RETURN(const auto all, client.files(id));
  const auto is_part = [](const RemoteFile& file) {
    return file.name.starts_with("checkpoints/step-");
  };
  if (std::none_of(all.begin(), all.end(), is_part))
    return failed_precondition(cat("job '", id, "': expected a checkpoint, it has left none yet"));
  const std::set<std::string> stay = {"weights.safetensors", "log.txt", "metrics.jsonl"};
  for (const RemoteFile& file : all) {
    if (file.name.find('/') != std::string::npos || stay.contains(file.name)) continue;
    LEAT_RETURN_IF_ERROR(client.fetch(id, file.name, folder).status());
  }
  return {};
}

Result<PackedJob> pack_fetched(const std::string& id, const std::string& folder,
                               const JobOverrides& overrides, Files& files) {
  LEAT_ASSIGN_OR_RETURN(PackedRun run, pack_folder(folder, overrides, files));
  run.packed.request.resume = id;
  return std::move(run.packed);
}

Result<PackedJob> pack_job(const JobOptions& options, Files& files) {
  PackedJob packed;
  LEAT_ASSIGN_OR_RETURN(packed.job, load_job(options.file, options.overrides));
  LEAT_ASSIGN_OR_RETURN(const Bytes text, read_file(files, options.file, kMaxJobFile));
  packed.request.request_id = new_request_id();
  packed.request.text.assign(reinterpret_cast<const char*>(text.data()), text.size());
  add_overrides(options, packed.job, packed.request.overrides);

  LEAT_RETURN_IF_ERROR(add_graph(files, packed));
  if (const std::string& weights = packed.job.model.weights; !weights.empty()) {
    const std::string name = "weights/" + fs::path(weights).filename().string();
    packed.request.files.push_back({name, weights});
    packed.request.overrides.push_back("model.weights=" + quoted(name));
  }
  return packed;
}

}  // namespace leat
