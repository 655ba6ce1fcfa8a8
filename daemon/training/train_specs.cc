#include "daemon/training/train_specs.h"

#include <algorithm>
#include <string>
#include <vector>

namespace leat {
namespace {

// '*' stands for any characters, '?' for one. If a character does not match, the last '*' takes one
// more; earlier ones need not change, so the time is that of pattern times text at most, whatever
// the job file has.
bool matches_glob(std::string_view pattern, std::string_view text) {
  size_t p = 0, t = 0, after_star = std::string_view::npos, taken = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      after_star = ++p;
      taken = t;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[t])) {
      ++p, ++t;
    } else if (after_star != std::string_view::npos) {
      p = after_star;
      t = ++taken;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == std::string_view::npos;
}

// The fields that an optimizer does not know stay in the spec; it ignores them.
OptimizerSpec optimizer_spec(const Job::Optimizer& o) {
  OptimizerSpec spec;
  spec.kind = o.name == Job::OptimizerName::sgd    ? OptimizerKind::sgd
              : o.name == Job::OptimizerName::adam ? OptimizerKind::adam
                                                   : OptimizerKind::adamw;
  spec.learning_rate = o.learning_rate;
  spec.weight_decay = o.weight_decay;
  spec.momentum = o.momentum;
  spec.nesterov = o.nesterov;
  spec.beta_1 = o.beta_1;
  spec.beta_2 = o.beta_2;
  spec.epsilon = o.epsilon;
  spec.lazy = o.lazy;
  return spec;
}

ScheduleSpec schedule_spec(const Job::Scheduler& s, int64_t total_steps) {
  ScheduleSpec spec;
  switch (s.name) {
    case Job::SchedulerName::constant:
      spec.kind = ScheduleKind::constant;
      break;
    case Job::SchedulerName::linear:
      spec.kind = ScheduleKind::linear;
      break;
    case Job::SchedulerName::cosine:
      spec.kind = ScheduleKind::cosine;
      break;
    case Job::SchedulerName::step:
      spec.kind = ScheduleKind::step;
      break;
    case Job::SchedulerName::exponential:
      spec.kind = ScheduleKind::exponential;
      break;
  }
  spec.warmup_steps = s.warmup_steps;
  // The decay begins after the warmup. At least 1, since it is a divisor.
  spec.decay_steps =
      s.decay_steps > 0 ? s.decay_steps : std::max<int64_t>(1, total_steps - s.warmup_steps);
  spec.alpha = s.alpha;
  spec.step_size = s.step_size;
  spec.gamma = s.gamma;
  spec.decay_rate = s.decay_rate;
  return spec;
}

}  // namespace

// Attributes know only int64, so the flag and the seed are cast; the reader casts the seed back.
Attrs reader_attrs(const Job::Files& files, const DatasetInfo& info, bool shuffle, uint64_t seed) {
  const auto sizes = [](const Shape& shape) {
    return std::vector<int64_t>(shape.begin(), shape.end());
  };
  return {{"format", std::string(name_of(files.format))},
          {"features", files.features},
          {"labels", files.labels},
          {"record_shape", sizes(info.record_shape)},
          {"record_dtype", std::string(dtype_name(info.record_dtype))},
          {"label_shape", sizes(info.label_shape)},
          {"label_dtype", std::string(dtype_name(info.label_dtype))},
          {"shuffle", int64_t{shuffle}},
          {"seed", static_cast<int64_t>(seed)}};
}

bool has_accuracy(const Job& job) {
  return std::find(job.metrics.begin(), job.metrics.end(), Job::Metric::accuracy) !=
         job.metrics.end();
}

TrainSpec train_spec(const Job& job, const DatasetInfo& info, int64_t total_steps) {
  TrainSpec spec;
  spec.input.reader = reader_attrs(job.data.train, info, job.data.shuffle, job.seed);
  spec.input.rescale = job.data.rescale;
  spec.loss = job.loss == Job::Loss::cross_entropy ? LossKind::cross_entropy : LossKind::mse;
  spec.accuracy = has_accuracy(job);
  spec.optimizer = optimizer_spec(job.optimizer);
  spec.schedule = schedule_spec(job.lr_scheduler, total_steps);
  spec.global_batch = job.global_batch_size;
  spec.shards = job.shards;
  spec.precision = job.precision;
  // The function has a copy of the patterns, so it does not depend on the life of the job.
  spec.frozen = [freeze = job.model.freeze](const std::string& name) {
    return std::any_of(freeze.begin(), freeze.end(),
                       [&](const std::string& pattern) { return matches_glob(pattern, name); });
  };
  return spec;
}

}  // namespace leat
