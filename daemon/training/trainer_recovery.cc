// How a training goes on from what workers hold of an attempt that failed.
#include <algorithm>

#include "daemon/checkpoint/set_aside.h"
#include "daemon/metrics/metrics_extent.h"
#include "daemon/training/trainer_state.h"
#include "devices/base/text.h"

namespace leat {

std::string_view name_of(TrainSource source) {
  static constexpr std::string_view kNames[] = {"start", "checkpoint", "memory"};
  return kNames[static_cast<int>(source)];
}

namespace {

// The end of an epoch, behind which `step` is, was lost with the end of the log: its validation
// comes again by going back to the checkpoint of step `least`, and not otherwise.
bool lacks(const MetricsExtent& logged, int64_t epoch, int64_t end, int64_t least, int64_t step) {
  return end >= logged.last_step && end > least && end < step &&
         logged.epochs.count({epoch, end}) == 0;
}

}  // namespace

// What each worker holds, and from which step all can go on: the last one that workers which are
// whole hold all variables of, and whose metrics are known up to there.
Result<std::optional<Trainer::Memory>> Trainer::find_memory(int64_t least) {
  const std::optional<Memory> none;
  if (!options_.survivors || job_.asynchronous() || job_.has_quorum()) return none;
  const auto& workers = hosts_->hosts();
  std::vector<Held> held(workers.size());
  std::set<int64_t> steps;
  for (size_t w = 0; w < workers.size(); ++w) {
    auto answer = workers[w]->held(job_.name);  // who cannot say holds nothing
    if (answer.ok()) held[w] = std::move(*answer);
    if (held[w].whole) steps.insert(static_cast<int64_t>(held[w].step));
  }
  std::set<std::string> all;
  for (const auto& [device, names] : holds_) all.insert(names.begin(), names.end());
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
    Memory memory{*step, "", std::vector<bool>(workers.size(), false), {}};
    std::set<std::string> there;
    for (size_t w = 0; w < workers.size(); ++w) {
      const std::set<std::string>& names = holds_[workers[w]->device_name()];
      memory.holds[w] = held[w].whole && static_cast<int64_t>(held[w].step) == *step;
      if (!memory.holds[w] || names.empty()) continue;
      if (memory.holder.empty()) memory.holder = workers[w]->name();
      there.insert(names.begin(), names.end());
      for (const Held::Row& row : held[w].rows)
        memory.rows.emplace(static_cast<int64_t>(row.step), row.values);
    }
    if (*step == 0 || *step < least || *step > total_steps_ || there != all) continue;
    LEAT_ASSIGN_OR_RETURN(const MetricsExtent logged, read_metrics_extent(files_, metrics_path()));
    bool whole = true;
    for (int64_t epoch = 1; end_of(epoch) < *step; ++epoch)
      whole = whole && !lacks(logged, epoch, end_of(epoch), least, *step);
    if (!whole) continue;
    int64_t known = *step;
    while (known > logged.last_step && memory.rows.count(known - 1) > 0) --known;
    // Those that a checkpoint says are done do not come again by going back to it.
    if (known <= std::max(logged.last_step, least)) return std::optional(std::move(memory));
  }
  return none;
}

// Those who hold another step, or none, get the variables of those who hold this one.
Status Trainer::restore(const Memory& memory) {
  const auto& workers = hosts_->hosts();
  Variables values;
  const auto here = [&](size_t w) -> const std::set<std::string>& {
    return holds_[workers[w]->device_name()];
  };
  const auto lacks = [&](size_t w) { return !memory.holds[w] && !here(w).empty(); };
  std::set<std::string> wanted;
  for (size_t w = 0; w < workers.size(); ++w) {
    if (lacks(w)) wanted.insert(here(w).begin(), here(w).end());
  }
  for (size_t w = 0; w < workers.size(); ++w) {
    const bool helps = std::any_of(here(w).begin(), here(w).end(), [&](const std::string& name) {
      return wanted.count(name) > 0 && values.count(name) == 0;
    });
    if (!memory.holds[w] || !helps) continue;
    LEAT_ASSIGN_OR_RETURN(auto read, workers[w]->read_variables(job_.name));
    values.merge(read);
  }
  for (size_t w = 0; w < workers.size(); ++w) {
    if (!lacks(w)) continue;
    Variables own;
    for (const std::string& name : here(w)) {
      if (const auto found = values.find(name); found != values.end()) own.insert(*found);
    }
    LEAT_RETURN_IF_ERROR(workers[w]->write_variables(job_.name, own, Restore::everything,
                                                     static_cast<uint64_t>(memory.step)));
  }
  return {};
}

// Writes the metrics of steps that the log does not have, though they are done.
Status Trainer::log_rows(const Memory& memory) {
  for (int64_t step = metrics_->last_step(); step < memory.step; ++step) {
    const auto row = memory.rows.find(step);
    if (row != memory.rows.end()) LEAT_RETURN_IF_ERROR(log_row(step, row->second));
  }
  return metrics_->flush();
}

// A refusal of the disk, or of what it holds; and the weights come to what they would have been.
bool Trainer::may_begin_anew(const Status& why) const {
  const bool repeats = !job_.asynchronous() && !job_.has_quorum();
  return options_.begin_anew && repeats && why.code() == Code::failed_precondition;
}

// Nobody holds a step, and no checkpoint is whole. Nothing if the job begins at step 0.
Result<std::optional<Checkpoint>> Trainer::begin_anew(const Status& why, TrainObserver& observer) {
  std::optional<Checkpoint> from;
  if (!may_begin_anew(why)) {
    if (!options_.begin_anew || why.code() != Code::failed_precondition) return why;
    return why.while_doing(
        "going on, and its weights depend on timing, so that to begin once more is for a person to "
        "decide: submit it again");
  }
  LEAT_ASSIGN_OR_RETURN(const auto aside,
                        set_aside_checkpoints_after(files_, checkpoints_.folder(), -1));
  if (!aside.empty())
    observer.warned(cat("damaged checkpoints were set aside, as ", join(aside, ", ")));
  checkpoints_.follow_none();
  bool came_with_one = false;
  if (options_.first_checkpoint) {
    LEAT_ASSIGN_OR_RETURN(came_with_one, options_.first_checkpoint());
  }
  if (came_with_one) {
    LEAT_ASSIGN_OR_RETURN(from, newest_checkpoint(observer));
  }
  observer.warned(cat("BEGINS ONCE MORE at step ", from ? from->manifest.step : 0,
                      ": no checkpoint of it is whole, and no worker holds a step of it; the "
                      "weights will be the same"));
  return from;
}

// Those that were passed over would count as the newest, and be replaced in time.
Status Trainer::set_aside_damaged(TrainObserver& observer) {
  if (checkpoints_.last_step() < 0) return {};
  LEAT_ASSIGN_OR_RETURN(const auto aside, set_aside_checkpoints_after(files_, checkpoints_.folder(),
                                                                      checkpoints_.last_step()));
  if (!aside.empty())
    observer.warned(cat("damaged checkpoints were set aside, as ", join(aside, ", ")));
  return {};
}

// For what it is about to write: a folder, and files.
Status Trainer::make_way(TrainObserver& observer) {
  const auto told = [&](Result<std::string> aside) -> Status {
    LEAT_RETURN_IF_ERROR(aside.status());
    if (!aside->empty()) observer.warned(cat("what stood in the way was set aside, as ", *aside));
    return {};
  };
  const std::string& graph = job_.model.graph;
  LEAT_RETURN_IF_ERROR(told(make_way_for_folder(files_, checkpoints_.folder())));
  for (const std::string& name :
       {std::string("job.yaml"), std::string("weights.safetensors"), std::string("metrics.jsonl"),
        graph.substr(graph.rfind('/') + 1)}) {
    LEAT_RETURN_IF_ERROR(told(make_way_for_file(files_, cat(options_.folder, "/", name))));
  }
  return {};
}

// Brings the log of metrics to where the training stands, and says what it has lost.
Status Trainer::open_metrics(const std::optional<Memory>& memory, TrainObserver& observer) {
  if (memory) LEAT_RETURN_IF_ERROR(log_rows(*memory));
  metrics_->expect_rows_until(done_);
  const std::string lost = metrics_->loss().text();
  if (lost.empty()) return {};
  observer.warned(cat("metrics.jsonl: ", lost));
  observer.lost_metrics(metrics_->loss());
  return {};
}

// The epochs that have ended, what the last step gave, and the sums of an epoch that is begun, from
// the log of metrics.
Status Trainer::recall(Progress& progress, TrainObserver& observer) {
  if (done_ == 0) return {};
  for (const EpochResult& epoch : metrics_->epochs()) observer.epoch_recalled(epoch);
  const int64_t begin = steps_until_epoch(progress.epoch - 1);
  const bool f32 = job_.precision == DType::f32;
  const int64_t after = std::min(begin, done_ - 1);
  // Asked for before the file is read: a row that moves to the file meanwhile is in one of them.
  const LoggedMetrics unwritten = metrics_->unwritten(after, f32);
  LEAT_ASSIGN_OR_RETURN(LoggedMetrics logged,
                        read_last_metrics(files_, metrics_path(), after, f32));
  for (const LoggedMetrics::Row& row : unwritten.tail) {
    if (logged.tail.empty() || row.step > logged.tail.back().step) logged.tail.push_back(row);
  }
  for (const LoggedMetrics::Row& row : logged.tail) {
    if (row.values.empty()) continue;
    const bool has_accuracy = has_accuracy_ && row.values.size() > 1;
    const std::optional<double> accuracy =
        has_accuracy ? std::optional(row.values[1]) : std::nullopt;
    if (row.step > begin)
      progress.add(row.values[0], accuracy, row.skipped);
    else
      progress.last = {row.values[0], accuracy, row.values[0], accuracy};
    if (row.step != done_) continue;
    StepResult last = progress.last;
    last.skipped_steps = metrics_->skipped_steps();
    // Of an epoch that has ended just now there is the mean, and none of the next one.
    if (row.step <= begin && !metrics_->epochs().empty()) {
      const EpochResult& ended = metrics_->epochs().back();
      last.mean_loss = ended.loss;
      if (accuracy) last.mean_accuracy = ended.accuracy;
    }
    const bool of_next = row.step <= begin && progress.epoch > 1;
    observer.recalled(progress.epoch - (of_next ? 1 : 0), epochs_, last);
  }
  return {};
}

}  // namespace leat
