#include "daemon/training/train_specs.h"

#include <algorithm>
#include <string>
#include <vector>

#include "devices/base/glob.h"
#include "ops/definitions/input.h"

namespace leat {
namespace {

// The schedule with what it needs to know of the job.
ScheduleSpec schedule_spec(const Job& job, int64_t records, int64_t total_steps) {
  ScheduleSpec spec = job.lr_scheduler;
  spec.total_steps = total_steps;
  // An epoch with a number of steps counts as one of so many rows, one in each step.
  const bool counted = job.steps_per_epoch > 0;
  spec.rows_per_step = counted ? 1 : job.rows_per_step();
  spec.rows_per_epoch = counted ? job.steps_per_epoch : records;
  return spec;
}

LossScaleSpec loss_scale_spec(const Job::LossScale& scale) {
  using Kind = LossScaleSpec::Kind;
  switch (scale.kind) {
    case Job::LossScale::Kind::none:
      return {};
    case Job::LossScale::Kind::fixed:
      return {Kind::fixed, scale.initial, scale.growth_interval};
    case Job::LossScale::Kind::dynamic:
      return {Kind::dynamic, scale.initial, scale.growth_interval};
  }
  return {};
}

// The output that the loss is, or that it compares with the labels; "" is the graph's first one.
LossSpec of_output(LossSpec spec, const Job& job) {
  if (spec.output.empty() && !job.model.outputs.empty()) spec.output = job.model.outputs[0];
  return spec;
}

}  // namespace

DatasetFiles dataset_files(const Job& job, const Job::Files& files) {
  DatasetFiles names;
  names.format = files.format;
  names.files = files.files;
  names.root = job.data.root;
  names.columns = job.data.columns;
  names.options = files.options;
  if (files.format != "tokens") return names;
  names.window = files.window;
  names.stride = files.stride;
  names.element = files.dtype;
  return names;
}

std::vector<const Job::Files*> validation_files(const Job& job) {
  std::vector<const Job::Files*> sets;
  if (job.data.validation) sets.push_back(&*job.data.validation);
  for (const auto& [name, files] : job.data.more_validation) sets.push_back(&files);
  return sets;
}

// Attributes know only int64, so the flag and the seed are cast; the reader casts the seed back.
Attrs reader_attrs(const DatasetFiles& names, const FoundDataset& found, bool shuffle,
                   uint64_t seed) {
  DatasetFiles without_patterns = names;
  without_patterns.files = found.files;
  Attrs attrs = reader_attributes(without_patterns, found.info);
  attrs["shuffle"] = int64_t{shuffle};
  attrs["seed"] = static_cast<int64_t>(seed);
  return attrs;
}

int64_t epoch_rows(const Job& job, const DatasetInfo& info) {
  return epoch_rows(info, job.data.sharding, job.shards);
}

LossSpec loss_spec(const Job& job) { return of_output(job.loss, job); }

std::vector<LossSpec> loss_specs(const Job& job) {
  std::vector<LossSpec> specs;
  for (const LossSpec* loss : job.losses()) specs.push_back(of_output(*loss, job));
  return specs;
}

AutocastSpec autocast_spec(const Job& job) {
  if (!job.computes_in_16_bits()) return {};
  return {job.precision, job.mixed.wide, job.mixed.narrow};
}

bool has_accuracy(const Job& job) {
  return std::find(job.metrics.begin(), job.metrics.end(), MetricSpec::of("accuracy")) !=
         job.metrics.end();
}

std::vector<MetricSpec> evaluated_metrics(const Job& job) {
  std::vector<MetricSpec> metrics;
  for (const MetricSpec& each : job.metrics) {
    if (each.recipe().sums != nullptr) metrics.push_back(each);
  }
  return metrics;
}

TrainSpec train_spec(const Job& job, const FoundDataset& found, int64_t total_steps) {
  TrainSpec spec;
  if (job.has_data()) {
    spec.input.reader =
        reader_attrs(dataset_files(job, job.data.train), found, job.data.shuffle, job.seed);
    if (job.data.sharding != Sharding::data)
      spec.input.reader["sharding"] = std::string(sharding_name(job.data.sharding));
  }
  if (job.program)
    spec.program = ProgramSpec{job.program->init, job.program->step, job.program->fetch};
  spec.input.rescale = job.data.rescale;
  spec.input.columns = job.model.inputs;
  spec.input.transforms = job.data.transforms;
  spec.loss = loss_spec(job);
  for (const LossSpec& loss : job.more_losses) spec.more_losses.push_back(of_output(loss, job));
  spec.accuracy = has_accuracy(job);
  spec.metrics = evaluated_metrics(job);
  spec.optimizer = job.optimizer;
  spec.schedule = schedule_spec(job, epoch_rows(job, found.info), total_steps);
  spec.global_batch = job.global_batch_size;
  spec.shards = job.shards;
  spec.precision = job.master_dtype();
  spec.autocast = autocast_spec(job);
  spec.loss_scale = loss_scale_spec(job.mixed.loss_scale);
  // The function has a copy of the patterns, so it does not depend on the life of the job.
  spec.frozen = [train = job.model.train, freeze = job.model.freeze](const std::string& name) {
    const auto matches = [&](const std::vector<std::string>& patterns) {
      return std::any_of(patterns.begin(), patterns.end(),
                         [&](const std::string& pattern) { return matches_glob(pattern, name); });
    };
    return (!train.empty() && !matches(train)) || matches(freeze);
  };
  return spec;
}

}  // namespace leat
