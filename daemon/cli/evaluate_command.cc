#include "daemon/cli/evaluate_command.h"

#include <algorithm>
#include <iostream>
#include <thread>

#include "daemon/base/exit_code.h"
#include "daemon/cli/data_option.h"
#include "daemon/cli/missing_files.h"
#include "daemon/cli/progress.h"
#include "daemon/cli/run_files.h"
#include "daemon/cli/run_place.h"
#include "daemon/training/evaluation_rows.h"
#include "daemon/training/run_evaluator.h"
#include "daemon/training/run_folder.h"
#include "daemon/training/run_weights.h"
#include "devices/base/text.h"
#include "ops/catalogue.h"

namespace leat {
namespace {

using std::chrono::milliseconds;

// How often a run is looked at for a new checkpoint.
constexpr milliseconds kLook{500};

// One line for people: "step 100 - val_loss: 0.5 - val_accuracy: 0.9".
std::string text_of(const ValidationResult& result, bool has_step) {
  std::vector<NamedValue> values;
  for (const auto& [name, value] : result.numbers) values.push_back({name, value});
  const std::string step = has_step ? cat("step ", result.step) : std::string("weights");
  return cat(step, format_values(values), "\n");
}

// One run of the command: the place, the job and, once weights are there, the evaluator.
class EvaluationRun {
 public:
  explicit EvaluationRun(const EvaluateCommand& command)
      : command_(command), place_(command.cluster), catalogue_(standard_catalogue()) {}

  int run();

 private:
  int load();
  Result<RunWeights> weights();
  Result<ValidationResult> evaluate(RunWeights weights);
  int follow();
  Status take(int64_t step, EvaluationRows& rows);
  Status take_new(EvaluationRows& rows);
  void print(const ValidationResult& result, std::optional<int64_t> step) const;
  int report(const Status& status) const;
  bool is_over() const {
    return place_.is_interrupted() || (due_ && std::chrono::steady_clock::now() >= *due_);
  }

  const EvaluateCommand& command_;
  RunPlace place_;
  const Catalogue catalogue_;
  std::optional<std::chrono::steady_clock::time_point> due_;
  Job job_;
  std::unique_ptr<RunEvaluator> evaluator_;
};

int EvaluationRun::report(const Status& status) const {
  if (place_.is_interrupted()) return place_.exit_code_of_interrupt();
  if (status.code() == Code::cancelled && is_over()) return kExitTimeout;
  return place_.report(status);
}

int EvaluationRun::load() {
  if (const int code = place_.open(command_.name); code != kExitOk) return code;
  JobOverrides overrides;
  auto data = data_overrides(command_.data);
  if (!data.ok()) return report(data.status());
  overrides.set = *std::move(data);
  overrides.set.insert(overrides.set.end(), command_.set.begin(), command_.set.end());
  auto job = load_run_job(real_files(), place_.folder(), overrides);
  if (!job.ok()) return report(job.status());
  job_ = *std::move(job);
  if (!job_.data.validation) return kExitOk;  // RunEvaluator says so
  if (!report_missing_root(job_, command_.cluster.color)) return kExitOk;
  std::cerr << "A run keeps no data: name the folder that it has here, with --set data.root=PATH, "
               "or other data with --data.\n";
  return kExitNoSuch;
}

Result<RunWeights> EvaluationRun::weights() {
  if (!command_.weights.empty()) {
    LEAT_ASSIGN_OR_RETURN(const bool here, real_files().exists(command_.weights));
    if (here) return read_weights_of_file(run_files(), command_.weights);
    LEAT_ASSIGN_OR_RETURN(const auto path, place_.file(command_.weights));
    if (path) return read_weights_of_file(run_files(), *path);
    return failed_precondition(
        cat("--weights: expected a file here or of the run, received '", command_.weights, "'"));
  }
  std::optional<int64_t> step = command_.checkpoint;
  if (!step) {
    LEAT_ASSIGN_OR_RETURN(const auto path, place_.file("weights.safetensors"));
    if (path) return read_weights_of_file(run_files(), *path);
    LEAT_ASSIGN_OR_RETURN(const auto steps, place_.checkpoints(job_));
    if (steps.empty())
      return failed_precondition(
          cat("'", command_.name, "': expected weights or a checkpoint, it has left none yet"));
    step = steps.back();
  }
  LEAT_ASSIGN_OR_RETURN(const std::string path, place_.checkpoint(job_, *step));
  return read_weights_of_checkpoint(run_files(), path);
}

Result<ValidationResult> EvaluationRun::evaluate(RunWeights weights) {
  // The rule by which floats are variables is known with the first weights.
  if (!evaluator_) {
    LEAT_ASSIGN_OR_RETURN(evaluator_,
                          RunEvaluator::create(catalogue_, real_files(), job_, weights.every_float,
                                               static_cast<int>(command_.threads.value_or(0))));
  }
  auto result = evaluator_->evaluate(std::move(weights.values), weights.step.value_or(0),
                                     [this] { return is_over(); });
  if (!result.ok()) return result.status().while_doing(cat("evaluating '", weights.path, "'"));
  return result;
}

void EvaluationRun::print(const ValidationResult& result, std::optional<int64_t> step) const {
  std::cout << (command_.cluster.json ? evaluation_row(result, step)
                                      : text_of(result, step.has_value()))
            << std::flush;
}

int EvaluationRun::run() {
  if (command_.timeout) due_ = std::chrono::steady_clock::now() + *command_.timeout;
  if (const int code = load(); code != kExitOk) return code;
  if (command_.follow) return follow();
  auto found = weights();
  if (!found.ok()) return report(found.status());
  const std::optional<int64_t> step = found->step;
  const auto result = evaluate(*std::move(found));
  if (!result.ok()) return report(result.status());
  print(*result, step);
  return kExitOk;
}

// Evaluates one checkpoint. One that the run removes meanwhile is passed over.
Status EvaluationRun::take(int64_t step, EvaluationRows& rows) {
  const auto path = place_.checkpoint(job_, step);
  auto weights = path.ok() ? read_weights_of_checkpoint(run_files(), *path)
                           : Result<RunWeights>(path.status());
  if (!weights.ok()) {
    LEAT_ASSIGN_OR_RETURN(const auto left, place_.checkpoints(job_));
    if (std::find(left.begin(), left.end(), step) != left.end()) return weights.status();
    std::cerr << "leat: note: the run has removed the checkpoint of step " << step
              << " before it was evaluated\n";
    return {};
  }
  LEAT_ASSIGN_OR_RETURN(const ValidationResult result, evaluate(*std::move(weights)));
  place_.drop(*path);
  LEAT_RETURN_IF_ERROR(rows.add(result));
  print(result, step);
  return {};
}

Status EvaluationRun::take_new(EvaluationRows& rows) {
  LEAT_ASSIGN_OR_RETURN(const auto steps, place_.checkpoints(job_));
  for (const int64_t step : steps) {
    if (is_over()) return {};
    if (!rows.has(step)) LEAT_RETURN_IF_ERROR(take(step, rows));
  }
  return {};
}

int EvaluationRun::follow() {
  std::string path = command_.output;
  if (path.empty())
    path = place_.job().empty() ? cat(place_.folder(), "/", kEvaluationsFile)
                                : cat(place_.job(), "-", kEvaluationsFile);
  EvaluationRows rows(real_files(), path);
  Status status = rows.open();
  while (status.ok()) {
    // Asked first: no checkpoint comes after the end, so one more look finds all.
    const auto ended = place_.has_ended(job_);
    status = ended.status();
    if (status.ok()) status = take_new(rows);
    if (place_.is_interrupted()) return place_.exit_code_of_interrupt();
    if (is_over()) return kExitTimeout;
    if (!status.ok()) break;
    if (*ended) return kExitOk;
    std::this_thread::sleep_for(kLook);
  }
  return report(status);
}

}  // namespace

int run_evaluate(const EvaluateCommand& command) {
  if (const Status keys = use_checkpoint_keys(command.cluster.checkpoint_keys); !keys.ok())
    return report(keys, command.cluster.color);
  return EvaluationRun(command).run();
}

}  // namespace leat
