#include "daemon/cli/pack_job.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <utility>

#include "daemon/base/yaml_document.h"
#include "daemon/checkpoint/check_continues.h"
#include "daemon/checkpoint/checkpoint_store.h"
#include "daemon/checkpoint/sealed_files.h"
#include "daemon/spec/fixed_inputs.h"
#include "daemon/spec/load_graph.h"
#include "daemon/training/model.h"
#include "daemon/training/run_evaluator.h"
#include "daemon/training/run_folder.h"
#include "devices/base/text.h"
#include "ops/catalogue.h"
#include "ops/layers/layers.h"

namespace leat {
namespace {

namespace fs = std::filesystem;

// Makes `shards` a key of the job, which it may have from num_workers and accumulated gradients.
void set_shards(const Job& job, int64_t shards, std::vector<std::string>& out) {
  if (!job.program) out.emplace_back("optimizer.accumulate=1");
  out.push_back(cat("shards=", shards));
}

// Turns --workers and --seed into overrides like those of --set. --workers does not change the
// number of shards.
void add_overrides(const JobOptions& options, const Job& job, std::vector<std::string>& out) {
  out = options.overrides.set;
  if (options.overrides.num_workers) {
    // A job without the key takes its shards from the number of workers, and the weights depend on
    // them.
    set_shards(job, job.shards, out);
    out.push_back(options.overrides.min_workers
                      ? cat("num_workers=[", *options.overrides.min_workers, ", ",
                            *options.overrides.num_workers, "]")
                      : cat("num_workers=", *options.overrides.num_workers));
  }
  if (options.overrides.seed) out.push_back(cat("seed=", *options.overrides.seed));
}

// Adds the graph, and its data files in the same folder or below.
Status add_graph(Files& files, PackedJob& packed) {
  const std::string& path = packed.job.model.graph;
  const Catalogue catalogue = standard_catalogue();
  // The graph is loaded only to find its errors and its data files. The files are sent as they are.
  LEAT_ASSIGN_OR_RETURN(FixedInputs fixed, fixed_inputs_of(packed.job.model.fixed));
  LEAT_ASSIGN_OR_RETURN(LoadedGraph graph, load_graph(files, path, catalogue,
                                                      {.trainable = true,
                                                       .fixed = std::move(fixed),
                                                       .outputs = packed.job.model.outputs}));
  packed.notes.insert(packed.notes.end(), graph.notes.begin(), graph.notes.end());
  const auto expanded = expand_layers(graph.graph);
  if (!expanded.ok()) return expanded.status().while_doing(cat("checking '", path, "'"));
  // The limit counts the nodes of all shards, with the layers expanded.
  LEAT_RETURN_IF_ERROR(check_size(path, *expanded, packed.job.shards));
  const GraphFiles all{path, std::move(graph.data)};
  JobRequest& request = packed.request;
  // The master knows the graph by a name, not by the path of this machine, and an override says so.
  const std::string name = cat(kRunGraphs, fs::path(path).filename().string());
  request.files.push_back({name, path});
  request.overrides.push_back("model.graph=" + yaml_string(name));
  for (const std::string& data : all.data) {
    LEAT_ASSIGN_OR_RETURN(const std::string below, data_name(data, path));
    request.files.push_back({cat(kRunGraphs, below), data});
  }
  return {};
}

// Adds the newest checkpoint that verifies.
Status add_checkpoint(Files& files, const std::string& folder, PackedJob& packed) {
  LEAT_ASSIGN_OR_RETURN(const auto paths, list_checkpoints(files, folder));
  std::vector<std::string> damaged;
  for (const std::string& path : paths) {
    const auto manifest = verify_checkpoint(files, path);
    // A damaged checkpoint is no error as long as an older one is whole.
    if (!manifest.ok()) {
      if (lacks_key(manifest.status())) return manifest.status();
      damaged.push_back(manifest.status().message());
      packed.notes.push_back("a checkpoint was passed over: " + damaged.back());
      continue;
    }
    // The newest whole one must fit the job. An older one would not fit better.
    LEAT_RETURN_IF_ERROR(check_continues(*manifest, packed.job));
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

// Returns the root of the job's data. load_run_job() makes every relative root a path below the
// folder; if no such path exists, the root is the name of a data set.
std::string data_root_of(const Job& job, const std::string& folder) {
  if (job.data.root.empty()) return "";
  const fs::path inside = fs::path(job.data.root).lexically_relative(fs::absolute(folder));
  const bool below = !inside.empty() && *inside.begin() != "..";
  std::error_code failure;
  return below && !fs::exists(job.data.root, failure) ? inside.string() : job.data.root;
}

// The job of a run's folder, and the folder of its checkpoints.
struct PackedRun {
  PackedJob packed;
  std::string checkpoints;
};

// The origin of a job file. One from the cluster may name any path of this machine, so only files
// in its own folder are sent.
enum class Origin : uint8_t { here, cluster };

Result<PackedRun> pack_folder(const std::string& folder, Origin origin,
                              const JobOverrides& overrides, Files& files) {
  PackedRun run;
  PackedJob& packed = run.packed;
  LEAT_ASSIGN_OR_RETURN(packed.job, load_run_job(files, folder, overrides));
  Job& job = packed.job;
  // The job file was written elsewhere, so its graph has to be one of the files that were fetched.
  if (origin == Origin::cluster) {
    std::string& graph = job.model.graph;
    const std::string name = fs::path(graph).filename().string();
    if (name_below(graph, folder).empty()) graph = cat(folder, "/", name);
    LEAT_ASSIGN_OR_RETURN(const bool there, files.exists(graph));
    if (!there) {
      return invalid_argument(cat("job '", job.name, "': expected its graph '", name,
                                  "' among the files that it has left, found none"));
    }
  }
  // The paths are of this machine, and mean nothing where the job will run.
  const std::string own = std::exchange(job.checkpoint.path, "");
  job.checkpoint.copy_to.clear();
  run.checkpoints = own.empty() ? folder + "/checkpoints" : own;
  if (job.has_data()) job.data.root = data_root_of(job, folder);
  packed.request.request_id = new_request_id();
  packed.request.text = print_job(job);
  LEAT_RETURN_IF_ERROR(add_graph(files, packed));
  return run;
}

constexpr std::string_view kEvaluation = "-evaluation";
constexpr size_t kMostName = 100;  // bytes of a job's name

// The same model and data, for a job that evaluates another one. It never stands in that one's way:
// it comes behind it in the queue, and leaves a worker that it wants.
Job evaluation_of(const Followed& followed, Job job) {
  job = on_one_host(std::move(job));
  job.evaluates = followed.id;
  job.name = job.name.substr(0, kMostName - kEvaluation.size()) + std::string(kEvaluation);
  job.checkpoint = {};
  job.exports.clear();
  job.early_stopping.reset();
  job.queue.priority = followed.priority - 1;
  job.queue.preemptible = true;
  job.queue.max_run_time = {};
  return job;
}

}  // namespace

Result<PackedJob> pack_run(const std::string& folder, const JobOverrides& overrides, Files& files) {
  LEAT_ASSIGN_OR_RETURN(PackedRun run, pack_folder(folder, Origin::here, overrides, files));
  LEAT_RETURN_IF_ERROR(add_checkpoint(files, run.checkpoints, run.packed));
  run.packed.request.reads_with = &files;  // a checkpoint may be encrypted here
  const std::string metrics = folder + "/metrics.jsonl";
  LEAT_ASSIGN_OR_RETURN(const bool has_metrics, files.exists(metrics));
  // The new job continues these metrics, so they go with the checkpoint.
  if (has_metrics) run.packed.request.files.push_back({cat(kResumed, "metrics.jsonl"), metrics});
  return std::move(run.packed);
}

// The checkpoint and the metrics stay with the master. No other files are fetched, whatever the
// master lists.
Status fetch_job(ClusterClient& client, const std::string& id, const std::string& folder,
                 bool needs_checkpoint) {
  LEAT_ASSIGN_OR_RETURN(const auto all, client.files(id));
  const auto is_part = [](const RemoteFile& file) {
    return file.name.starts_with("checkpoints/step-");
  };
  // Said before anything is fetched, because the job cannot go on without a checkpoint.
  if (needs_checkpoint && std::none_of(all.begin(), all.end(), is_part))
    return failed_precondition(cat("job '", id, "': expected a checkpoint, it has left none yet"));
  // Graphs are in their folder or, if they have no data files, beside the job file.
  const auto is_wanted = [](const std::string& name) {
    const bool nested = name.find('/') != std::string::npos;
    return name == "job.yaml" || name.starts_with(kRunGraphs) || (!nested && is_graph_file(name));
  };
  const auto is_job = [](const RemoteFile& file) { return file.name == "job.yaml"; };
  if (!needs_checkpoint && std::none_of(all.begin(), all.end(), is_job)) {
    return failed_precondition(cat("job '", id,
                                   "': expected a job file, it has left none yet; "
                                   "name its job file beside --evaluate"));
  }
  for (const RemoteFile& file : all) {
    if (is_wanted(file.name)) LEAT_RETURN_IF_ERROR(client.fetch(id, file.name, folder).status());
  }
  return {};
}

Result<PackedJob> pack_fetched(const std::string& id, const std::string& folder,
                               const JobOverrides& overrides, Files& files) {
  LEAT_ASSIGN_OR_RETURN(PackedRun run, pack_folder(folder, Origin::cluster, overrides, files));
  // The master finds the checkpoint and the metrics by the id.
  run.packed.request.resume = id;
  return std::move(run.packed);
}

Result<PackedJob> pack_evaluation(const Followed& followed, const std::string& folder,
                                  const JobOverrides& overrides, Files& files) {
  LEAT_ASSIGN_OR_RETURN(PackedRun run, pack_folder(folder, Origin::cluster, {}, files));
  PackedJob& packed = run.packed;
  std::vector<std::string>& set = packed.request.overrides;
  set.insert(set.begin(), overrides.set.begin(), overrides.set.end());
  if (packed.job.program) LEAT_RETURN_IF_ERROR(check_evaluates(packed.job));
  packed.request.text = print_job(evaluation_of(followed, std::move(packed.job)));
  JobOverrides changes;
  changes.set = set;
  LEAT_ASSIGN_OR_RETURN(packed.job,
                        parse_job(packed.request.text, cat(folder, "/job.yaml"), changes));
  return std::move(packed);
}

Status add_evaluation(const Followed& followed, const Job& job, std::vector<std::string>& set) {
  LEAT_RETURN_IF_ERROR(check_evaluates(job));
  const Job made = evaluation_of(followed, job);
  const std::vector<std::string> defaults = {cat("name=", yaml_string(made.name)),
                                             cat("priority=", made.queue.priority),
                                             "preemptible=true", "max_run_time=null"};
  set.insert(set.begin(), defaults.begin(), defaults.end());
  set.push_back(cat("evaluates=", yaml_string(followed.id)));
  set.push_back(cat("strategy=", made.strategy));
  set.emplace_back("num_workers=1");
  set.emplace_back("resources_per_worker.gpu=0");
  set_shards(job, made.shards, set);
  return {};
}

Result<JobText> read_whole_job(const JobOptions& options) {
  JobText file;
  LEAT_ASSIGN_OR_RETURN(file.text, read_job_text(options.file));
  LEAT_ASSIGN_OR_RETURN(file.job, parse_job(file.text, options.file, options.overrides));
  return file;
}

Result<PackedJob> pack_job(JobText file, const JobOptions& options, Files& files) {
  PackedJob packed;
  packed.job = std::move(file.job);
  // One id for the life of the request: a submit that is repeated is the same job.
  packed.request.request_id = new_request_id();
  packed.request.text = std::move(file.text);
  add_overrides(options, packed.job, packed.request.overrides);

  LEAT_RETURN_IF_ERROR(add_graph(files, packed));
  if (const std::string& weights = packed.job.model.weights; !weights.empty()) {
    const std::string name = "weights/" + fs::path(weights).filename().string();
    packed.request.files.push_back({name, weights});
    LEAT_ASSIGN_OR_RETURN(const auto beside, data_of_weights(files, weights));
    for (const std::string& data : beside) {
      LEAT_ASSIGN_OR_RETURN(const std::string below, data_name(data, weights));
      packed.request.files.push_back({cat("weights/", below), data});
    }
    Job::Model renamed = packed.job.model;
    renamed.weights = name;
    packed.request.overrides.push_back("model.weights=" + print_weights(renamed));
  }
  return packed;
}

}  // namespace leat
