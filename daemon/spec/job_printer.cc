#include "daemon/base/yaml_document.h"
#include "daemon/spec/job.h"
#include "daemon/spec/names.h"
#include "daemon/spec/read_files.h"
#include "daemon/spec/read_loss.h"
#include "daemon/spec/read_queue.h"
#include "daemon/spec/read_recipes.h"
#include "daemon/spec/read_settings.h"
#include "daemon/spec/read_transforms.h"
#include "devices/base/text.h"

namespace leat {
namespace {

using namespace job_names;

template <typename Names, typename Enum>
std::string_view word(const Names& names, Enum value) {
  return names[static_cast<size_t>(value)];
}

// Makes "{a: 1, b: 2}" from its entries.
class FlowMap {
 public:
  template <typename T>
  FlowMap& add(std::string_view key, const T& value) {
    entries_.push_back(cat(key, ": ", value));
    return *this;
  }
  // The shortest text that reads back to the same number.
  FlowMap& add(std::string_view key, double value) {
    entries_.push_back(cat(key, ": ", shortest(value)));
    return *this;
  }
  std::string text() const { return "{" + join(entries_, ", ") + "}"; }

 private:
  std::vector<std::string> entries_;
};

// The print_ functions below each give the value of one key. Keys that do not apply are left out,
// because the reader refuses them.
std::string print_list(const std::vector<std::string>& items) {
  std::vector<std::string> quoted;
  for (const std::string& item : items) quoted.push_back(yaml_string(item));
  return "[" + join(quoted, ", ") + "]";
}

std::string print_model(const Job::Model& model) {
  FlowMap map;
  map.add("graph", yaml_string(model.graph));
  if (!model.weights.empty()) map.add("weights", print_weights(model));
  if (!model.train.empty()) map.add("train", print_list(model.train));
  if (!model.freeze.empty()) map.add("freeze", print_list(model.freeze));
  FlowMap inputs;
  for (const auto& [input, column] : model.inputs)
    inputs.add(yaml_string(input), yaml_string(column));
  if (!model.inputs.empty()) map.add("inputs", inputs.text());
  FlowMap fixed;
  for (const auto& [input, value] : model.fixed) fixed.add(yaml_string(input), yaml_string(value));
  if (!model.fixed.empty()) map.add("fixed", fixed.text());
  if (!model.outputs.empty()) map.add("outputs", print_list(model.outputs));
  return map.text();
}

// One set without a name, or all sets by name. The first has a name wherever there are others.
std::string print_validation_data(const Job::Data& data) {
  if (data.validation_name.empty()) return print_data_files(*data.validation);
  FlowMap map;
  map.add(data.validation_name, print_data_files(*data.validation));
  for (const auto& [name, files] : data.more_validation) map.add(name, print_data_files(files));
  return map.text();
}

std::string print_validation(const Job::Validation& validation) {
  FlowMap map;
  if (validation.every_steps > 0) map.add("every_steps", validation.every_steps);
  if (validation.rows > 0) map.add("rows", validation.rows);
  return map.text();
}

std::string print_data(const Job::Data& data) {
  if (!data.train.has_files() && data.train.options.empty()) return "";  // a program's
  std::string text = "data:\n";
  if (!data.root.empty()) text += cat("  root: ", yaml_string(data.root), "\n");
  text += cat("  train: ", print_data_files(data.train), "\n");
  if (data.validation) text += cat("  validation: ", print_validation_data(data), "\n");
  if (!data.columns.empty()) text += cat("  columns: ", print_named_texts(data.columns), "\n");
  text += cat("  rescale: ", shortest(data.rescale), "\n");
  if (!data.transforms.empty())
    text += cat("  transforms:\n", print_transforms(data.transforms, "    "));
  text += cat("  shuffle: ", data.shuffle ? "true" : "false", "\n");
  if (data.sharding != Sharding::data)
    text += cat("  sharding: ", sharding_name(data.sharding), "\n");
  return text;
}

std::string print_program(const Job::Program& program) {
  FlowMap map;
  if (!program.init.empty()) map.add("init", print_list(program.init));
  if (!program.step.empty()) map.add("step", print_list(program.step));
  if (!program.fetch.empty()) map.add("fetch", print_list(program.fetch));
  return map.text();
}

std::string print_groups(const OptimizerSpec& optimizer) {
  std::vector<std::string> groups;
  for (const OptimizerGroup& group : optimizer.groups) {
    FlowMap map;
    map.add("match", print_list(group.match));
    if (group.learning_rate) map.add("learning_rate", *group.learning_rate);
    if (group.lr_scale != 1) map.add("lr_scale", group.lr_scale);
    if (group.freeze) map.add("freeze", "true");
    SettingValues values = optimizer.values;
    for (const auto& [name, value] : group.values) values.set(name, value);
    for (const Setting& setting : find_optimizer(optimizer.name)->settings) {
      if (group.values.contains(std::string(setting.name)))
        map.add(setting.name, setting_text(setting, values));
    }
    groups.push_back(map.text());
  }
  return "[" + join(groups, ", ") + "]";
}

std::string print_optimizer(const OptimizerSpec& optimizer) {
  FlowMap map;
  map.add("name", optimizer.name).add("learning_rate", optimizer.learning_rate);
  for (const Setting& setting : find_optimizer(optimizer.name)->settings)
    map.add(setting.name, setting_text(setting, optimizer.values));
  if (find_optimizer(optimizer.name)->is_one_op) map.add("lazy", optimizer.lazy ? "true" : "false");
  if (optimizer.clip_norm > 0) map.add("clip_norm", optimizer.clip_norm);
  if (optimizer.clip_value > 0) map.add("clip_value", optimizer.clip_value);
  if (optimizer.ema > 0) map.add("ema", optimizer.ema);
  if (optimizer.sam > 0) map.add("sam", optimizer.sam);
  if (!optimizer.groups.empty()) map.add("groups", print_groups(optimizer));
  if (!optimizer.layer_decay.layers.empty()) {
    map.add("layer_decay", FlowMap()
                               .add("factor", optimizer.layer_decay.factor)
                               .add("layers", print_list(optimizer.layer_decay.layers))
                               .text());
  }
  return map.text();
}

void add_monitor(const Job::Monitor& monitor, FlowMap& map) {
  map.add("monitor", monitor.metric).add("mode", monitor.rises ? "max" : "min");
}

std::string print_scheduler(const Job& job) {
  const ScheduleSpec& scheduler = job.lr_scheduler;
  FlowMap map;
  map.add("name", scheduler.name).add("warmup_steps", scheduler.warmup_steps);
  if (scheduler.per_epoch) map.add("per", "epoch");
  if (find_schedule(scheduler.name)->has_milestones)
    map.add("milestones", "[" + join(scheduler.milestones, ", ") + "]");
  for (const Setting& setting : find_schedule(scheduler.name)->settings) {
    // 0 stands for a default that depends on other keys.
    const bool absent = !setting.required && setting.kind == SettingKind::integer &&
                        setting.initial == 0 && scheduler.values.integer(setting.name) == 0;
    if (!absent) map.add(setting.name, setting_text(setting, scheduler.values));
  }
  if (find_schedule(scheduler.name)->looks_at_epochs) add_monitor(job.plateau, map);
  return map.text();
}

std::string print_strategy(const Job& job) {
  if (!job.uses_servers()) return job.strategy;
  const Job::ParameterServer& servers = job.parameter_server;
  FlowMap map;
  map.add("name", job.strategy).add("mode", name_of(servers.mode)).add("num_ps", servers.num_ps);
  // Only a job with this key may have the other two.
  if (servers.replicas_to_aggregate > 0) {
    map.add("total_num_replicas", job.num_workers)
        .add("replicas_to_aggregate", servers.replicas_to_aggregate)
        .add("dropped_samples", name_of(servers.dropped_samples));
  }
  return map.text();
}

// A precision without options is its name.
std::string print_precision(const Job& job) {
  const std::string_view name = precision_name(job.precision);
  if (!job.computes_in_16_bits()) return std::string(name);
  FlowMap map;
  map.add("compute", name);
  if (!job.mixed.wide.empty()) map.add("float32", print_list(job.mixed.wide));
  if (!job.mixed.narrow.empty()) map.add(name, print_list(job.mixed.narrow));
  const Job::LossScale& scale = job.mixed.loss_scale;
  if (scale.kind == Job::LossScale::Kind::fixed) map.add("loss_scale", scale.initial);
  if (scale.kind == Job::LossScale::Kind::dynamic) {
    map.add("loss_scale", FlowMap()
                              .add("initial", scale.initial)
                              .add("growth_interval", scale.growth_interval)
                              .text());
  }
  return map.text();
}

std::string print_checkpoint(const Job::Checkpoint& checkpoint) {
  FlowMap map;
  if (checkpoint.every_steps != 0) map.add("every_steps", checkpoint.every_steps);
  if (checkpoint.every_minutes != 0) map.add("every_minutes", checkpoint.every_minutes);
  map.add("keep", checkpoint.keep);
  if (!checkpoint.path.empty()) map.add("path", yaml_string(checkpoint.path));
  if (!checkpoint.copy_to.empty()) map.add("copy_to", yaml_string(checkpoint.copy_to));
  if (checkpoint.best) map.add("best", print_monitor(*checkpoint.best));
  return map.text();
}

}  // namespace

std::string print_job(const Job& job) {
  std::string text = cat("version: 1\nname: ", yaml_string(job.name), "\n");
  if (!job.evaluates.empty()) text += cat("evaluates: ", yaml_string(job.evaluates), "\n");
  text += cat("model: ", print_model(job.model), "\n");
  text += print_data(job.data);
  if (job.program) {
    text += cat("program: ", print_program(*job.program), "\n");
  } else {
    text += cat("loss: ", print_loss(job), "\n");
    text += cat("metrics: ", print_metrics(job.metrics), "\n");
    if (job.early_stopping)
      text += cat("early_stopping: ", print_early_stopping(*job.early_stopping), "\n");
    text += cat("optimizer: ", print_optimizer(job.optimizer), "\n");
    text += cat("lr_scheduler: ", print_scheduler(job), "\n");
  }
  text += cat("global_batch_size: ", job.global_batch_size, "\n");
  // Exactly one of the two is set, and the reader refuses both together.
  text += job.steps != 0 ? cat("steps: ", job.steps, "\n") : cat("epochs: ", job.epochs, "\n");
  if (job.steps_per_epoch > 0) text += cat("steps_per_epoch: ", job.steps_per_epoch, "\n");
  text += cat("seed: ", job.seed, "\n");
  // Always printed, because its default depends on other keys.
  text += cat("shards: ", job.shards, "\n");
  text += cat("strategy: ", print_strategy(job), "\n");
  text += job.min_workers > 0 ? cat("num_workers: [", job.min_workers, ", ", job.num_workers, "]\n")
                              : cat("num_workers: ", job.num_workers, "\n");
  text += print_resources(job.gpus_per_worker, job.queue);
  text += cat("max_failures: ", job.max_failures, "\n");
  text += print_queue(job.queue);
  if (job.validation != Job::Validation())
    text += cat("validation: ", print_validation(job.validation), "\n");
  // A map of checkpoints needs an interval, which a job without any does not have.
  if (job.checkpoint != Job::Checkpoint()) {
    text += cat("checkpoint: ", print_checkpoint(job.checkpoint), "\n");
  }
  text += cat("precision: ", print_precision(job), "\n");
  if (job.tf32) text += "matmul_precision: tf32\n";
  text += cat("on_nan: ", name_of(job.on_nan), "\n");
  if (job.audit > 0) text += cat("audit: ", shortest(job.audit), "\n");
  std::vector<std::string_view> exports;
  for (const Job::ExportFormat format : job.exports) exports.push_back(name_of(format));
  return exports.empty() ? text : text + cat("export: [", join(exports, ", "), "]\n");
}

std::string print_weights(const Job::Model& model) {
  if (model.rename_weights.empty() && model.strict_weights) return yaml_string(model.weights);
  FlowMap map, rename;
  map.add("file", yaml_string(model.weights));
  for (const auto& [from, to] : model.rename_weights)
    rename.add(yaml_string(from), yaml_string(to));
  if (!model.rename_weights.empty()) map.add("rename", rename.text());
  return map.add("strict", model.strict_weights ? "true" : "false").text();
}

std::string describe_strategy(const Job& job) {
  if (!job.uses_servers()) return job.strategy;
  const Job::ParameterServer& servers = job.parameter_server;
  std::string timing = job.asynchronous() ? "; weights depend on timing" : "";
  if (job.has_quorum()) {
    timing = cat("; quorum ", servers.replicas_to_aggregate, " of ", job.num_workers,
                 ": weights depend on timing");
  }
  return cat(job.strategy, " (", name_of(servers.mode), ", ", servers.num_ps,
             servers.num_ps == 1 ? " server" : " servers", timing, ")");
}

std::string_view name_of(Job::Mode mode) { return word(kModes, mode); }
std::string_view name_of(Job::OnNan on_nan) { return word(kOnNan, on_nan); }
std::string_view name_of(Job::DroppedSamples dropped) { return word(kDroppedSamples, dropped); }
std::string_view name_of(Job::ExportFormat format) { return word(kExports, format); }

}  // namespace leat
