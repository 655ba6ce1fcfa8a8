#include <algorithm>
#include <cctype>
#include <filesystem>
#include <optional>

#include "daemon/base/yaml_document.h"
#include "daemon/base/yaml_reader.h"
#include "daemon/spec/job.h"
#include "daemon/spec/names.h"
#include "daemon/spec/read_files.h"
#include "daemon/spec/read_loss.h"
#include "daemon/spec/read_optimizer.h"
#include "daemon/spec/read_precision.h"
#include "daemon/spec/read_queue.h"
#include "daemon/spec/read_recipes.h"
#include "daemon/spec/read_transforms.h"
#include "devices/base/files.h"
#include "devices/base/text.h"
#include "ops/data/dataset_files.h"
#include "ops/data/stores/store_files.h"
#include "ops/text/fix_inputs.h"
#include "scheduler/strategies/strategy.h"

namespace leat {
namespace {

using namespace job_names;

constexpr IntRange kCount = {.min = 1, .max = int64_t{1} << 40};  // of steps
constexpr IntRange kPlaces = {.min = 1, .max = 4096};             // of shards and workers
constexpr FloatRange kPositive = {.min = 0, .min_open = true};

// Returns a path from the job file, relative to `folder` unless it is absolute, in normal form: the
// same text on every run.
std::string resolved(const std::string& path, const std::filesystem::path& folder) {
  return (folder / path).lexically_normal().string();
}

// The name becomes a part of the job's id and of folders, so it has only characters that are safe
// there.
void read_name(YamlMap& top, Job& job) {
  if (!top.get_string("name", Need::required, job.name)) return;
  const auto letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  };
  bool good = job.name.size() <= 100 && letter(job.name.front());
  for (const char c : job.name) good = good && (letter(c) || c == '-' || c == '_' || c == '.');
  if (good) return;
  top.fail("name",
           "expected letters, digits, '-', '_' and '.', at most 100 and a letter or digit "
           "first, received '" +
               job.name.substr(0, 120) + "'");
}

size_t stars(const std::string& glob) {
  return static_cast<size_t>(std::count(glob.begin(), glob.end(), '*'));
}

// Each read_ function reads one map and reports its errors to the reader. Reading goes on after an
// error.
void read_rename(YamlMap map, Job::Model& model) {
  for (const std::string& from : map.keys()) {
    std::string to;
    if (!map.get_string(from, Need::required, to, "the name of a variable")) continue;
    if (stars(from) != stars(to)) {
      map.fail(from,
               cat("expected a name with as many '*' as '", from, "' has, received '", to, "'"));
    }
    model.rename_weights.emplace_back(from, to);
  }
  map.finish();
}

// A file without options may be its path alone.
void read_weights(YamlMap& model, const std::filesystem::path& folder, Job::Model& out) {
  constexpr std::string_view kFile = "the path of a safetensors, npz or ONNX file";
  if (!model.is_map("weights")) {
    if (model.get_string("weights", Need::optional, out.weights, kFile))
      out.weights = resolved(out.weights, folder);
    return;
  }
  YamlMap map = model.get_map("weights", Need::optional);
  if (map.get_string("file", Need::required, out.weights, kFile))
    out.weights = resolved(out.weights, folder);
  if (YamlMap rename = map.get_map("rename", Need::optional); rename.present())
    read_rename(std::move(rename), out);
  map.get_bool("strict", Need::optional, out.strict_weights);
  map.finish();
}

// Each value is a number, a bool or a list of them; lists of lists are written as a text.
void read_fixed(YamlMap map, Job::Model& model) {
  if (!map.present()) return;
  for (const std::string& input : map.keys()) {
    const bool list = map.is_list(input);
    std::vector<std::string> parts;
    if (!map.get_scalars(input, Need::required, list, parts)) continue;
    const std::string text = list ? cat("[", join(parts, ", "), "]") : parts[0];
    if (const auto value = parse_fixed_value(text); !value.ok()) {
      map.fail(input, cat(value.status().message(), ", received '", text.substr(0, 100), "'"));
      continue;
    }
    model.fixed[input] = text;
  }
  map.finish();
}

void read_model(YamlMap map, const std::filesystem::path& folder, Job::Model& model) {
  if (map.get_string("graph", Need::required, model.graph, "the path of a graph file")) {
    model.graph = resolved(model.graph, folder);
  }
  read_weights(map, folder, model);
  map.get_strings("train", Need::optional, model.train);
  map.get_strings("freeze", Need::optional, model.freeze);
  if (YamlMap inputs = map.get_map("inputs", Need::optional); inputs.present()) {
    for (const std::string& input : inputs.keys())
      inputs.get_string(input, Need::required, model.inputs[input], "the name of a column");
    inputs.finish();
  }
  read_fixed(map.get_map("fixed", Need::optional), model);
  map.get_strings("outputs", Need::optional, model.outputs);
  map.finish();
}

// Refuses keys that do not apply to this name, because they would be ignored otherwise.
void refuse_keys(YamlMap& map, bool refuse, std::string_view name,
                 std::initializer_list<std::string_view> keys) {
  for (const std::string_view key : keys) {
    if (refuse && map.has(key)) map.fail(key, cat("is not a key of ", name));
  }
}

// True if the only column is a window of tokens.
bool has_windows(const Job::Files& files) {
  const auto& texts = files.options;
  return files.format == "tokens" || (files.format == "mixture" &&
                                      std::any_of(texts.begin(), texts.end(), [](const auto& text) {
                                        return text.ends_with(":format=tokens");
                                      }));
}

// The windows have the columns of documents, too.
bool has_documents(const Job::Files& files) {
  const auto& texts = files.options;
  return has_windows(files) && std::any_of(texts.begin(), texts.end(), [](const auto& text) {
           return text.starts_with("separator=") ||
                  text.find(":option=separator=") != std::string::npos;
         });
}

// Without columns, windows of tokens have the inputs and labels of a language model: each token's
// label is the next token, with documents the next one of its own document.
void read_columns(YamlMap& map, Job::Data& data) {
  if (map.has("columns")) {
    data.columns = read_named_texts(map.get_map("columns", Need::optional), false);
  } else if (has_documents(data.train)) {
    data.columns = {"tokens=window[:-1]", "segments=segments[:-1]", "positions=positions[:-1]",
                    "labels=targets[:-1]"};
  } else if (has_windows(data.train)) {
    data.columns = {"tokens=window[:-1]", "labels=window[1:]"};
  }
}

// The name of a set becomes the key NAME_loss of its numbers.
bool is_set_name(std::string_view name) {
  const auto good = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  };
  return !name.empty() && name.size() <= 40 && std::all_of(name.begin(), name.end(), good) &&
         !(name[0] >= '0' && name[0] <= '9');
}

// One set of data, or a map of sets by name: then no value describes files, and all are maps.
void read_validation_data(YamlMap map, Job::Data& data) {
  const std::vector<std::string> keys = map.keys();
  const bool named = !keys.empty() && !map.has("format") && !map.has("files") &&
                     std::all_of(keys.begin(), keys.end(),
                                 [&](const std::string& key) { return map.is_map(key); });
  if (!named) {
    Job::Files files;
    read_data_files(std::move(map), files);
    data.validation = std::move(files);
    return;
  }
  for (const std::string& name : keys) {
    const bool first = !data.validation;
    if (!is_set_name(name)) {
      map.fail(name, cat("expected a name of letters, digits and '_', at most 40 and no digit ",
                         "first, received '", name, "'"));
    }
    if (!first && name == "val") {
      map.fail(name, "expected another name: val_loss is the loss of the first set");
    }
    Job::Files files;
    read_data_files(map.get_map(name, Need::required), files);
    if (first) {
      data.validation = std::move(files);
      data.validation_name = name;
    } else {
      data.more_validation.emplace_back(name, std::move(files));
    }
  }
  map.finish();
}

void read_data(YamlMap map, const std::filesystem::path& folder, Job::Data& data) {
  if (!map.present()) return;
  read_data_files(map.get_map("train", Need::required), data.train);
  if (YamlMap validation = map.get_map("validation", Need::optional); validation.present())
    read_validation_data(std::move(validation), data);
  // A format without files needs no folder.
  const bool has_files = data.train.has_files() ||
                         (data.validation && data.validation->has_files()) ||
                         std::any_of(data.more_validation.begin(), data.more_validation.end(),
                                     [](const auto& named) { return named.second.has_files(); });
  const Need need = has_files ? Need::required : Need::optional;
  if (map.get_string("root", need, data.root, "the path of a folder")) {
    const Status store = is_store_path(data.root) ? check_store_path(data.root) : Status();
    if (!store.ok()) map.fail("root", store.message());
    if (!is_store_path(data.root)) data.root = resolved(data.root, folder);
  }
  read_columns(map, data);
  map.get_float("rescale", Need::optional, kPositive, data.rescale);
  read_transforms(map, data.transforms);
  map.get_bool("shuffle", Need::optional, data.shuffle);
  map.get_enum("sharding", Need::optional, kShardings, data.sharding);
  map.finish();
}

// The keys of a training that a program has in its graph.
void read_program(YamlMap& top, Job& job) {
  for (const std::string_view key :
       {"loss", "metrics", "optimizer", "lr_scheduler", "early_stopping"}) {
    if (top.has(key))
      top.fail(key, "expected no such key beside program, whose graph has its own training");
    top.skip(key);
  }
  YamlMap map = top.get_map("program", Need::required);
  Job::Program program;
  map.get_strings("init", Need::optional, program.init);
  map.get_strings("step", Need::optional, program.step);
  map.get_strings("fetch", Need::optional, program.fetch);
  map.finish();
  job.program = std::move(program);
  if (job.data.validation)
    top.fail("data", "validation: expected none beside program, which has no loss to evaluate");
  if (!job.has_data() && top.has("epochs"))
    top.fail("epochs", "expected steps: a program without data has no epochs");
}

void read_length(YamlMap& top, Job& job) {
  // If neither is there, the error says that epochs is missing.
  const Need epochs = top.has("steps") ? Need::optional : Need::required;
  top.get_int("epochs", epochs, {.min = 1, .max = 1'000'000}, job.epochs);
  top.get_int("steps", Need::optional, kCount, job.steps);
  if (top.has("epochs") && top.has("steps")) {
    top.fail("steps",
             "expected epochs or steps, received both (epochs at " + top.where("epochs") + ")");
  }
  top.get_int("steps_per_epoch", Need::optional, kCount, job.steps_per_epoch);
}

void read_quorum(YamlMap& map, Job::ParameterServer& servers, int64_t& replicas) {
  map.get_int("total_num_replicas", Need::optional, kPlaces, replicas);
  // The other two keys mean nothing without this one.
  const Need together =
      map.has("total_num_replicas") || map.has("dropped_samples") ? Need::required : Need::optional;
  map.get_int("replicas_to_aggregate", together, kPlaces, servers.replicas_to_aggregate);
  map.get_enum("dropped_samples", Need::optional, kDroppedSamples, servers.dropped_samples);
}

// Returns false if there is no such key, or no strategy of that name.
bool read_strategy_name(YamlMap& map, std::string_view key, Need need, Job& job) {
  std::vector<std::string_view> names;
  for (const Strategy& strategy : all_strategies()) names.push_back(strategy.name);
  size_t index = 0;
  if (!map.get_choice(key, need, names, index)) return false;
  job.strategy = names[index];
  return true;
}

// `replicas` becomes total_num_replicas, or 0 if the file does not contain it.
void read_strategy(YamlMap& top, Job& job, int64_t& replicas) {
  // A strategy without options may be its name alone.
  if (!top.is_map("strategy")) {
    read_strategy_name(top, "strategy", Need::optional, job);
    return;
  }
  YamlMap map = top.get_map("strategy", Need::optional);
  const bool named = read_strategy_name(map, "name", Need::required, job);
  refuse_keys(map, named && !job.uses_servers(), job.strategy,
              {"mode", "num_ps", "total_num_replicas", "replicas_to_aggregate", "dropped_samples"});
  Job::ParameterServer& servers = job.parameter_server;
  map.get_enum("mode", Need::optional, kModes, servers.mode);
  map.get_int("num_ps", Need::optional, kPlaces, servers.num_ps);
  refuse_keys(map, servers.mode == Job::Mode::async, "mode async",
              {"total_num_replicas", "replicas_to_aggregate", "dropped_samples"});
  read_quorum(map, servers, replicas);
  map.finish();
}

// The evaluations; the sets of data that they cover are below data.
void read_validation(YamlMap& top, Job& job) {
  YamlMap map = top.get_map("validation", Need::optional);
  if (!map.present()) return;
  map.get_int("every_steps", Need::optional, kCount, job.validation.every_steps);
  map.get_int("rows", Need::optional, kCount, job.validation.rows);
  map.finish();
  if (!job.data.validation)
    top.fail("validation", "expected data.validation beside it, received none");
}

void read_checkpoint(YamlMap map, const std::filesystem::path& folder, Job& job) {
  Job::Checkpoint& checkpoint = job.checkpoint;
  // A map of checkpoints needs at least one interval, or best.
  const bool has_other = map.has("every_minutes") || map.has("best");
  const Need steps = has_other ? Need::optional : Need::required;
  map.get_int("every_steps", steps, kCount, checkpoint.every_steps);
  map.get_float("every_minutes", Need::optional, kPositive, checkpoint.every_minutes);
  map.get_int("keep", Need::optional, {.min = 1, .max = 10'000}, checkpoint.keep);
  if (map.get_string("path", Need::optional, checkpoint.path, "the path of a folder")) {
    checkpoint.path = resolved(checkpoint.path, folder);
  }
  if (map.get_string("copy_to", Need::optional, checkpoint.copy_to, "a path, or s3://...")) {
    std::string& copy_to = checkpoint.copy_to;
    if (const Status place = check_writable_place(copy_to); !place.ok())
      map.fail("copy_to", place.message());
    if (!is_store_path(copy_to)) copy_to = resolved(copy_to, folder);
    if (!checkpoint.path.empty())
      map.fail("copy_to", "expected none beside path: the copy is one of the run's own folder");
  }
  read_best(map, job);
  map.finish();
}

// Returns the multiples of `shards` next to a batch size that is not one.
std::string batch_sizes_that_fit(int64_t batch, int64_t shards) {
  const int64_t below = batch / shards * shards;
  if (below == 0) return cat(shards, " fits");
  return cat(below, " and ", below + shards, " fit");
}

// An audit compares what workers compute alike: it needs two of them that do each step together.
void check_audit(YamlMap& top, const Job& job) {
  if (job.audit == 0) return;
  std::string what;
  if (!strategy_of(job).replicates_variables) {
    what =
        cat("expected strategy: mirrored, with which each worker can compute what another one "
            "does, received strategy ",
            job.strategy);
  } else if (job.num_workers < 2) {
    what =
        "expected num_workers of 2 or more, of which one computes what another one did, received 1";
  } else if (job.program) {
    what = "expected a job with a loss and an optimizer, received a program, which has its own";
  } else if (job.on_nan == Job::OnNan::skip) {
    what = "expected on_nan: fail or ignore in a job that is audited, received skip";
  } else if (!job.evaluates.empty()) {
    what = "expected a job that trains, received one that evaluates another one";
  }
  if (!what.empty()) top.fail("audit", what);
}

// Checks the rules between keys. REQUIRES: every key by itself has a valid value.
void check_together(YamlMap& top, const Job& job) {
  const std::string shards_at =
      top.has("shards") ? " at " + top.where("shards") : ", which is num_workers of the file";
  // A worker computes whole shards, so a worker beyond their number would have nothing to do.
  if (job.num_workers > job.shards && !job.asynchronous() && !job.has_quorum() &&
      !strategy_of(job).one_replica) {
    top.fail(
        "num_workers",
        cat("expected at most ", job.shards, ", the shards of the job, received ", job.num_workers,
            "; change num_workers, or shards", shards_at, " (which changes the weights)"));
  }
  // An elastic job continues without some of its workers, so each worker needs all variables.
  if (job.min_workers > 0 && !strategy_of(job).replicates_variables) {
    top.fail("num_workers",
             cat("expected one number with strategy ", job.strategy,
                 ", of which each worker may hold what no other does, received [", job.min_workers,
                 ", ", job.num_workers, "]; change num_workers, or write strategy: mirrored"));
  }
  if (job.uses_servers() && job.parameter_server.num_ps > job.num_workers) {
    top.fail("strategy", cat("num_ps: expected at most ", job.num_workers,
                             ", the workers that servers are on, received ",
                             job.parameter_server.num_ps, "; change num_ps, or num_workers"));
  }
  if (job.on_nan == Job::OnNan::skip && (job.asynchronous() || job.has_quorum())) {
    top.fail("on_nan",
             "expected fail or ignore with a strategy whose workers do not do each step "
             "together, so that they could not all skip it, received skip");
  }
  // A replica of a quorum takes the rows that come next, which are those of no shard.
  if (job.data.sharding != Sharding::data && job.has_quorum()) {
    top.fail("data", cat("sharding: expected data with a quorum of replicas, received ",
                         sharding_name(job.data.sharding)));
  }
  // An evaluation has shards as the other job has, and takes rows as they come.
  if (job.evaluates.empty() && job.global_batch_size % job.shards != 0) {
    top.fail(
        "global_batch_size",
        cat("expected a multiple of ", job.shards, ", the shards of the job, received ",
            job.global_batch_size, "; ", batch_sizes_that_fit(job.global_batch_size, job.shards)));
  }
}

// A job that evaluates another one has one host compute everything.
void check_evaluation(YamlMap& top, const Job& job) {
  if (job.evaluates.empty()) return;
  if (job.program) {
    top.fail("evaluates", "expected none beside program, which has no loss to evaluate");
  } else if (!job.data.validation) {
    top.fail("evaluates", "expected data.validation beside it, received none");
  }
  if (job.num_workers > 1 || job.min_workers > 0 || job.gpus_per_worker > 0) {
    top.fail("evaluates", cat("expected num_workers: 1, without a GPU, beside it, received ",
                              job.num_workers, job.gpus_per_worker > 0 ? " with a GPU" : ""));
  }
}

// A schedule that looks at results needs a common step, and results to look at.
void check_plateau(YamlMap& top, const Job& job) {
  if (!find_schedule(job.lr_scheduler.name)->looks_at_epochs) return;
  if (job.asynchronous() || job.has_quorum()) {
    top.fail("lr_scheduler",
             cat("expected a strategy whose workers do each step together, so that they all change "
                 "the rate after an epoch, received ",
                 job.lr_scheduler.name));
  }
  if (job.lr_scheduler.values.integer("per") != 1) return;  // epoch
  if (!job.data.validation || job.validation.every_steps == 0) {
    top.fail("lr_scheduler",
             "per: validation: expected data.validation and validation.every_steps, received none");
  } else if (!job.plateau.metric.starts_with("val_")) {
    top.fail("lr_scheduler", cat("per: validation: expected a monitor of the validation, such as "
                                 "val_loss, received ",
                                 job.plateau.metric));
  }
}

// Without a common step, two workers may update a variable at once: only one op does so as a whole.
void check_updates(YamlMap& top, const Job& job) {
  if (job.program) return;
  if (job.optimizer.sam > 0 && job.has_quorum()) {
    top.fail("optimizer",
             "sam: expected a strategy whose workers all do each step, since a step needs the sum "
             "of its gradients twice, received a quorum");
  }
  check_plateau(top, job);
  if (!job.asynchronous()) return;
  if (!find_optimizer(job.optimizer.name)->is_one_op) {
    top.fail("optimizer", cat("expected sgd, adam or adamw with mode async, where each worker "
                              "updates the variables by itself, received ",
                              job.optimizer.name));
  }
  if (job.optimizer.ema > 0)
    top.fail("optimizer",
             "ema: expected a strategy whose workers do each step together, received "
             "mode async");
}

void check_quorum(YamlMap& top, const Job& job, int64_t replicas) {
  const int64_t aggregated = job.parameter_server.replicas_to_aggregate;
  if (aggregated == 0) return;
  // Each worker is one replica, so the two numbers are the same.
  if (replicas > 0 && replicas != job.num_workers) {
    top.fail("strategy",
             cat("total_num_replicas: expected ", job.num_workers,
                 ", the workers of the job, received ", replicas, "; a replica is a worker"));
  }
  if (aggregated > job.num_workers) {
    top.fail("strategy", cat("replicas_to_aggregate: expected at most ", job.num_workers,
                             ", the workers of the job, received ", aggregated));
  }
  if (job.has_quorum() && job.shards != aggregated) {
    top.fail("shards", cat("expected ", aggregated, ", as replicas_to_aggregate says, received ",
                           job.shards));
  }
}

void read_resources(YamlMap map, Job& job) {
  // A process that drives several GPUs may deadlock in NCCL: a worker has one, and a machine with
  // four of them offers four workers.
  map.get_int("gpu", Need::optional, {.min = 0, .max = 1}, job.gpus_per_worker);
  read_share(map, job.queue);
  if (job.gpus_per_worker > 0 && job.queue.shares_workers())
    map.fail("cpu", "expected it without gpu: a job with a GPU has the whole worker");
  map.finish();
}

// The default of shards comes from the strategy, and then from the workers of the file. It never
// comes from --workers, because the weights depend on it.
void read_shards(YamlMap& top, Job& job, int64_t file_workers, int64_t accumulate) {
  const bool one_replica = job.asynchronous() || strategy_of(job).one_replica;
  const int64_t aggregated = job.parameter_server.replicas_to_aggregate;
  job.shards = (one_replica ? 1 : aggregated > 0 ? aggregated : file_workers) * accumulate;
  if (accumulate > 1 && top.has("shards")) {
    top.fail("optimizer",
             "accumulate: expected it without the key shards, which says the same: "
             "shards = num_workers * accumulate");
  }
  top.get_int("shards", Need::optional, kPlaces, job.shards);
}

// `file_workers` is num_workers in the file, before --workers: the default of shards.
Job read_job(YamlReader& reader, int64_t file_workers, const std::filesystem::path& folder) {
  Job job;
  YamlMap top = reader.top();
  // The version of the format. There is only one so far.
  int64_t version = 0;
  top.get_int("version", Need::required, {.min = 1, .max = 1}, version);
  read_name(top, job);
  top.get_string("evaluates", Need::optional, job.evaluates, "the id of a job");
  read_model(top.get_map("model", Need::required), folder, job.model);
  const bool has_program = top.has("program");
  int64_t accumulate = 1;
  read_data(top.get_map("data", has_program ? Need::optional : Need::required), folder, job.data);
  if (has_program) {
    read_program(top, job);
  } else {
    read_loss(top, job);
    read_metrics(top, job);
    read_early_stopping(top, job);
    read_optimizer(top.get_map("optimizer", Need::required), job.optimizer, accumulate);
    read_scheduler(top.get_map("lr_scheduler", Need::optional), job);
  }
  const Need batch = has_program && !job.has_data() ? Need::optional : Need::required;
  top.get_int("global_batch_size", batch, {.min = 1, .max = int64_t{1} << 24},
              job.global_batch_size);
  read_length(top, job);
  // The reader knows only signed integers, so a seed is below 2^63.
  int64_t seed = 0;
  top.get_int("seed", Need::optional, {.min = 0}, seed);
  job.seed = static_cast<uint64_t>(seed);
  int64_t replicas = 0;
  read_strategy(top, job, replicas);
  read_shards(top, job, file_workers, accumulate);
  if (replicas > 0) job.num_workers = replicas;
  // A program without data has no rows; a step counts as one row of each shard.
  if (job.program && job.global_batch_size == 0) job.global_batch_size = job.shards;
  top.get_span("num_workers", Need::optional, kPlaces, job.min_workers, job.num_workers);
  read_resources(top.get_map("resources_per_worker", Need::optional), job);
  top.get_int("max_failures", Need::optional, {.min = 0, .max = 1000}, job.max_failures);
  read_queue(top, job.queue);
  read_validation(top, job);
  read_checkpoint(top.get_map("checkpoint", Need::optional), folder, job);
  read_precision(top, job);
  top.get_enum("on_nan", Need::optional, kOnNan, job.on_nan);
  top.get_float("audit", Need::optional, {.min = 0, .max = 1}, job.audit);
  std::vector<size_t> exports;
  top.get_choices("export", Need::optional, kExports, exports);
  for (const size_t format : exports) job.exports.push_back(static_cast<Job::ExportFormat>(format));
  top.finish();
  // Rules between keys only make sense if each value is valid by itself.
  if (reader.ok()) check_quorum(top, job, replicas);
  if (reader.ok()) check_together(top, job);
  if (reader.ok()) check_audit(top, job);
  if (reader.ok()) check_updates(top, job);
  if (reader.ok()) check_evaluation(top, job);
  return job;
}

// Only one of epochs and steps may be set: an override of one removes the other.
void drop_other_length(YamlDocument& document, std::string_view assignment) {
  if (assignment.starts_with("steps=")) document.remove("epochs");
  if (assignment.starts_with("epochs=")) document.remove("steps");
}

// Returns num_workers, the default of shards; for an elastic job the largest number.
int64_t workers_of(const YamlDocument& document) {
  int64_t workers = 1, least = 0;
  YamlReader reader(document);
  reader.top().get_span("num_workers", Need::optional, kPlaces, least, workers);
  return workers;  // wrong values are reported when the job is read
}

Status apply(const JobOverrides& overrides, YamlDocument& document, int64_t& file_workers) {
  for (const std::string& assignment : overrides.set) {
    drop_other_length(document, assignment);
    LEAT_RETURN_IF_ERROR(document.set(assignment));
  }
  // After --set, which may change the file's number, and before --workers, which must not change
  // the shards.
  file_workers = workers_of(document);
  if (overrides.num_workers) {
    const std::string most = std::to_string(*overrides.num_workers);
    const std::string least = overrides.min_workers ? std::to_string(*overrides.min_workers) : "";
    LEAT_RETURN_IF_ERROR(least.empty()
                             ? document.set("num_workers", most, "--workers " + most)
                             : document.set("num_workers", cat("[", least, ", ", most, "]"),
                                            cat("--workers ", least, ":", most)));
  }
  if (overrides.seed) {
    const std::string value = std::to_string(*overrides.seed);
    LEAT_RETURN_IF_ERROR(document.set("seed", value, "--seed " + value));
  }
  return {};
}

}  // namespace

Result<Job> parse_job(std::string_view text, const std::string& file_name,
                      const JobOverrides& overrides) {
  LEAT_ASSIGN_OR_RETURN(YamlDocument document, YamlDocument::parse(text, file_name));
  int64_t file_workers = 1;
  LEAT_RETURN_IF_ERROR(apply(overrides, document, file_workers));
  std::error_code error;
  // Paths in the file are relative to its folder, not to the folder of the caller.
  const auto file = std::filesystem::absolute(file_name, error);
  YamlReader reader(document);
  Job job = read_job(reader, file_workers, file.parent_path());
  LEAT_RETURN_IF_ERROR(reader.status());
  return job;
}

Result<std::string> read_job_text(const std::string& path) {
  const std::filesystem::path file(path);
  if (file.extension() == ".onnxtxt" || file.extension() == ".onnx") {
    std::string name = file.stem().string();
    for (char& c : name) {
      if (!std::isalnum(static_cast<unsigned char>(c)) && c != '-' && c != '_') c = '-';
    }
    return cat("version: 1\nname: ", yaml_string(name),
               "\nmodel: {graph: ", yaml_string(file.filename().string()), "}\nprogram: {}\n");
  }
  auto bytes = read_file(real_files(), path, uint64_t{1} << 20);
  if (!bytes.ok()) return bytes.status().while_doing("reading the job file");
  return std::string(reinterpret_cast<const char*>(bytes->data()), bytes->size());
}

Result<Job> load_job(const std::string& path, const JobOverrides& overrides) {
  LEAT_ASSIGN_OR_RETURN(const std::string text, read_job_text(path));
  return parse_job(text, path, overrides);
}

}  // namespace leat
