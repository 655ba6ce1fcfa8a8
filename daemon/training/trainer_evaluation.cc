// How a training evaluates, and what it says of an epoch.
#include <algorithm>
#include <chrono>
#include <utility>

#include "daemon/training/train_specs.h"
#include "daemon/training/trainer_state.h"

namespace leat {
namespace {

constexpr int64_t kEvaluationRows = 256;

}  // namespace

// Its last step is done, and it was evaluated if it is to be.
bool Trainer::has_ended(int64_t epoch) const {
  if (epoch > epochs_ || end_of(epoch) > done_) return false;
  if (end_of(epoch) < done_) return true;
  const auto& epochs = metrics_->epochs();
  return std::any_of(epochs.begin(), epochs.end(), [&](const EpochResult& result) {
    return result.epoch == epoch && static_cast<int64_t>(result.step) == done_;
  });
}

// An epoch of fewer rows than a step takes may have no step of its own: its mean is the last step.
// So it is where the rows of its steps are lost.
Status Trainer::end_epoch(Progress& progress, const std::optional<Evaluation>& validation,
                          TrainObserver& observer) {
  EpochResult result;
  result.epoch = static_cast<uint32_t>(progress.epoch);
  result.step = static_cast<uint64_t>(done_);
  const StepResult& last = progress.last;
  result.loss = progress.consumed > 0 ? last.mean_loss : last.loss;
  result.accuracy =
      (progress.consumed > 0 ? last.mean_accuracy : last.accuracy).value_or(kNoNumber);
  if (validation) {
    result.val_loss = computed(validation->loss);
    if (validation->accuracy) result.val_accuracy = computed(*validation->accuracy);
  }
  result.seconds = progress.seconds - std::exchange(progress.seconds_begin, progress.seconds);
  const int64_t steps = progress.trained - std::exchange(progress.trained_begin, progress.trained);
  if (result.seconds > 0)
    result.samples_per_second =
        static_cast<double>(steps * job_.global_batch_size) / result.seconds;
  LEAT_RETURN_IF_ERROR(metrics_->append(result));
  observer.epoch_ended(result);
  progress.loss_sum = progress.accuracy_sum = 0;
  progress.averaged = progress.consumed = 0;
  return {};
}

// Compiles the evaluation and opens its data, so that what is wrong with them ends the job before
// it trains.
Status Trainer::prepare_evaluation() {
  TrainSpec spec = this->spec();
  spec.input.reader = reader_attrs(*job_.data.validation, validation_info_, false, 0);
  spec.global_batch = evaluation_rows();
  spec.shards = common_shards();
  LEAT_ASSIGN_OR_RETURN(JobGraph graph, make_eval_graph(*inference_model_, spec));
  LEAT_ASSIGN_OR_RETURN(evaluation_,
                        compile(std::move(graph), plan_options("evaluate", common_shards())));
  if (options_.survivors) return {};  // they have evaluated, or tried to
  return hosts_->run(evaluation_, job_.name, {"evaluate", job_.seed, 0}).status();
}

int64_t Trainer::evaluation_rows() const {
  const int64_t shards = common_shards();
  return batch_.fixed.value_or(std::max<int64_t>(1, kEvaluationRows / shards)) * shards;
}

// Nothing if it is to yield: who goes on begins the evaluation anew.
Result<std::optional<Evaluation>> Trainer::evaluate() {
  LEAT_ASSIGN_OR_RETURN(auto run, hosts_->run(evaluation_, job_.name, {"evaluate", job_.seed, 0}));
  const int64_t batches = (validation_info_.count + evaluation_rows() - 1) / evaluation_rows();
  double loss = 0, rows = 0, correct = 0;
  for (int64_t b = 0; b < batches; ++b) {
    run->extend(static_cast<uint64_t>(std::min(batches, b + static_cast<int64_t>(run->window()))));
    const auto step = static_cast<uint64_t>(b);
    const auto due = last_moment();
    for (auto now = std::chrono::steady_clock::now(); now < due;) {
      if (may_yield()) return std::optional<Evaluation>();
      if (run->settled(step, std::min(due, now + kStopPoll))) break;
      now = std::chrono::steady_clock::now();
    }
    LEAT_RETURN_IF_ERROR(run->wait(step, due).while_doing("evaluating"));
    loss += run->fetched_scalar(0, step);
    rows += run->fetched_scalar(1, step);
    if (has_accuracy_) correct += run->fetched_scalar(2, step);
  }
  Evaluation out;
  out.loss = loss / rows;
  if (has_accuracy_) out.accuracy = correct / rows;
  return std::optional(out);
}

}  // namespace leat
