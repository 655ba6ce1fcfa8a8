#include "daemon/training/evaluator.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "daemon/training/evaluation_sums.h"
#include "daemon/training/train_specs.h"
#include "devices/base/text.h"

namespace leat {
namespace {

// Rows of an evaluation step over all shards, if the model takes any number: so many, or fewer if
// their values together would have more bytes than this.
constexpr int64_t kEvaluationRows = 256;
constexpr int64_t kEvaluationBytes = int64_t{4} << 30;

// The bytes of all values of one row: those whose first size is a symbol. Other symbols count as 1.
int64_t bytes_of_row(const Graph& graph) {
  int64_t bytes = 0;
  for (ValueId id = 0; id < graph.values(); ++id) {
    const ValueType& type = graph.value(id).type;
    if (type.kind != ValueKind::tensor || type.dtype == DType::invalid || type.shape.rank() == 0 ||
        type.shape[0].is_constant())
      continue;
    int64_t row = static_cast<int64_t>(dtype_size(type.dtype));
    for (const Dim& size : type.shape.dims()) {
      const bool large = size.factor > 0 && row > kEvaluationBytes / size.factor;
      row = large ? kEvaluationBytes : row * size.factor;
    }
    bytes = std::min(bytes + row, kEvaluationBytes);
  }
  return std::max<int64_t>(bytes, 1);
}

}  // namespace

int64_t evaluation_rows(const Graph& inference, int64_t batch) {
  const int64_t fitting = kEvaluationBytes / bytes_of_row(inference);
  return std::min(kEvaluationRows, std::max(fitting, batch));
}

int64_t Evaluator::most_rows() const {
  const int64_t shards = parts_.rules.common_shards;
  int64_t rows = evaluation_rows(parts_.input.model.inference, parts_.job.global_batch_size);
  rows = std::max<int64_t>(1, rows / shards);
  // A mean over rows past the end would count them: few rows make a smaller step.
  if (leaves_out_rows()) rows = std::max<int64_t>(1, std::min(rows, count() / shards));
  // A model with a fixed batch takes exactly that many rows on each shard.
  return parts_.input.model.batch.fixed.value_or(rows) * shards;
}

bool Evaluator::leaves_out_rows() const {
  const auto losses = parts_.spec.losses();
  return std::any_of(losses.begin(), losses.end(), [&](const LossSpec* loss) {
    return is_mean(parts_.input.model.inference, *loss);
  });
}

int64_t Evaluator::count() const {
  const int64_t rows = set_.found->info.count, most = parts_.job.validation.rows;
  return most > 0 ? std::min(rows, most) : rows;
}

int64_t Evaluator::steps() const {
  const int64_t each = rows_per_step_;
  return leaves_out_rows() ? count() / each : (count() + each - 1) / each;
}

Result<std::shared_ptr<const Plan>> Evaluator::compile() {
  const Job& job = parts_.job;
  const int64_t shards = parts_.rules.common_shards;
  TrainSpec spec = parts_.spec;
  // Without shuffling, so the rows are in the same order in every evaluation.
  spec.input.reader = reader_attrs(dataset_files(job, *set_.files), *set_.found, false, 0);
  if (count() < set_.found->info.count) spec.input.reader["limit"] = count();
  spec.global_batch = rows_per_step_;
  spec.shards = shards;
  LEAT_ASSIGN_OR_RETURN(spec.averaged, averaged_variables(parts_.input.model.training, spec));
  LEAT_ASSIGN_OR_RETURN(JobGraph graph, make_eval_graph(parts_.input.model.inference, spec));
  const bool first = set_.files == &*job.data.validation;
  return plans_.compile(std::move(graph), first ? "evaluate" : cat("evaluate ", set_.name), shards);
}

Result<std::shared_ptr<const Plan>> Evaluator::plan() {
  rows_per_step_ = most_rows();
  if (leaves_out_rows() && count() < rows_per_step_) {
    return invalid_argument(cat("data.validation: expected at least ", rows_per_step_,
                                " rows, one step of a loss that the model computes as a mean, ",
                                "received ", count()));
  }
  LEAT_RETURN_IF_ERROR(compile_to_fit());
  return plan_;
}

Status Evaluator::prepare() {
  LEAT_RETURN_IF_ERROR(plan().status());
  LEAT_RETURN_IF_ERROR(EvaluationSums::check_size(parts_.spec, *plan_, steps()));
  // Without an earlier attempt a run is opened here and closed at once, which opens the data.
  if (parts_.options.survivors) return {};
  return open().status();
}

bool Evaluator::halve_rows() {
  const int64_t shards = parts_.rules.common_shards;
  if (rows_per_step_ <= shards || parts_.input.model.batch.fixed) return false;
  rows_per_step_ = std::max<int64_t>(1, rows_per_step_ / shards / 2) * shards;
  return true;
}

Status Evaluator::compile_to_fit() {
  auto plan = compile();
  while (plan.status().code() == Code::resource_exhausted && halve_rows()) plan = compile();
  LEAT_RETURN_IF_ERROR(plan.status());
  plan_ = *std::move(plan);
  return {};
}

Result<std::unique_ptr<PlanRun>> Evaluator::open() {
  const Job& job = parts_.job;
  while (true) {
    auto run = parts_.hosts.run(plan_, job.name, {"evaluate", job.seed, 0});
    if (run.status().code() != Code::resource_exhausted || !halve_rows()) return run;
    LEAT_RETURN_IF_ERROR(compile_to_fit());
  }
}

Result<std::optional<Evaluation>> Evaluator::evaluate(const std::function<bool()>& yields) {
  EvaluationSums sums(parts_.spec);
  LEAT_ASSIGN_OR_RETURN(auto run, open());
  // The last step may have fewer rows than the others; the graph counts those that there are.
  const int64_t steps = this->steps();
  for (int64_t s = 0; s < steps; ++s) {
    // So many steps ahead that the hosts need not wait for this thread, but not so many that the
    // fetches of the next one are overwritten.
    run->extend(static_cast<uint64_t>(std::min(steps, s + static_cast<int64_t>(run->window()))));
    const auto step = static_cast<uint64_t>(s);
    const auto due = last_moment();
    // The wait is cut into pieces, so that the training yields soon.
    for (auto now = std::chrono::steady_clock::now(); now < due;) {
      if (yields()) return std::optional<Evaluation>();
      if (run->settled(step, std::min(due, now + kStopPoll))) break;
      now = std::chrono::steady_clock::now();
    }
    LEAT_RETURN_IF_ERROR(run->wait(step, due).while_doing("evaluating"));
    sums.add(*run, step);
  }
  return std::optional(sums.finish());
}

}  // namespace leat
