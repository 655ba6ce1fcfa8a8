#include "daemon/cli/evaluate_command.h"

#include <algorithm>
#include <iostream>
#include <set>
#include <thread>

#include "daemon/base/exit_code.h"
#include "daemon/base/json_line.h"
#include "daemon/cli/data_option.h"
#include "daemon/cli/missing_files.h"
#include "daemon/cli/progress.h"
#include "daemon/cli/run_place.h"
#include "daemon/metrics/metrics_lines.h"
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
constexpr uint64_t kMostRows = uint64_t{64} << 20;  // bytes of the file

// One line for people: "step 100 - val_loss: 0.5 - val_accuracy: 0.9".
std::string text_of(const ValidationResult& result, bool has_step) {
  std::vector<NamedValue> values;
  for (const auto& [name, value] : result.numbers) values.push_back({name, value});
  const std::string step = has_step ? cat("step ", result.step) : std::string("weights");
  return cat(step, format_values(values), "\n");
}

std::string json_of_row(const ValidationResult& result, std::optional<int64_t> step) {
  JsonLine line;
  line.add("step", step);
  for (const auto& [name, value] : result.numbers) line.add(name, value);
  return line.text();
}

// The rows of a follower, in a file that is replaced by each new one.
class EvaluationRows {
 public:
  explicit EvaluationRows(std::string path) : path_(std::move(path)) {}

  Status open() {
    LEAT_ASSIGN_OR_RETURN(const bool there, real_files().exists(path_));
    if (!there) return {};
    LEAT_ASSIGN_OR_RETURN(const Bytes bytes, read_file(real_files(), path_, kMostRows));
    text_.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    text_.erase(text_.rfind('\n') + 1);  // a torn line of another writer
    std::string_view rest = text_;
    for (size_t end = rest.find('\n'); end != std::string_view::npos; end = rest.find('\n')) {
      steps_.insert(MetricsLine::parse(rest.substr(0, end)).step);
      rest.remove_prefix(end + 1);
    }
    return {};
  }
  bool has(int64_t step) const { return steps_.contains(step); }
  Status add(int64_t step, const std::string& line) {
    text_ += line;
    steps_.insert(step);
    return write_file_atomically(real_files(), path_, std::as_bytes(std::span(text_)));
  }

 private:
  const std::string path_;
  std::string text_;
  std::set<int64_t> steps_;
};

// One run of the command: the place, the job and, once weights are there, the evaluator.
class EvaluationRun {
 public:
  explicit EvaluationRun(const EvaluateCommand& command)
      : command_(command), place_(command.cluster), catalogue_(standard_catalogue()) {}

  int run();

 private:
  int load();
  Result<RunWeights> weights();
  Result<ValidationResult> evaluate(const RunWeights& weights);
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
    if (here) return read_weights_of_file(real_files(), command_.weights);
    LEAT_ASSIGN_OR_RETURN(const auto path, place_.file(command_.weights));
    if (path) return read_weights_of_file(real_files(), *path);
    return failed_precondition(
        cat("--weights: expected a file here or of the run, received '", command_.weights, "'"));
  }
  std::optional<int64_t> step = command_.checkpoint;
  if (!step) {
    LEAT_ASSIGN_OR_RETURN(const auto path, place_.file("weights.safetensors"));
    if (path) return read_weights_of_file(real_files(), *path);
    LEAT_ASSIGN_OR_RETURN(const auto steps, place_.checkpoints(job_));
    if (steps.empty())
      return failed_precondition(
          cat("'", command_.name, "': expected weights or a checkpoint, it has left none yet"));
    step = steps.back();
  }
  LEAT_ASSIGN_OR_RETURN(const std::string path, place_.checkpoint(job_, *step));
  return read_weights_of_checkpoint(real_files(), path);
}

Result<ValidationResult> EvaluationRun::evaluate(const RunWeights& weights) {
  // The rule by which floats are variables is known with the first weights.
  if (!evaluator_) {
    LEAT_ASSIGN_OR_RETURN(evaluator_,
                          RunEvaluator::create(catalogue_, real_files(), job_, weights.every_float,
                                               static_cast<int>(command_.threads.value_or(0))));
  }
  auto result =
      evaluator_->evaluate(weights.values, weights.step.value_or(0), [this] { return is_over(); });
  if (!result.ok()) return result.status().while_doing(cat("evaluating '", weights.path, "'"));
  return result;
}

void EvaluationRun::print(const ValidationResult& result, std::optional<int64_t> step) const {
  std::cout << (command_.cluster.json ? json_of_row(result, step)
                                      : text_of(result, step.has_value()))
            << std::flush;
}

int EvaluationRun::run() {
  if (command_.timeout) due_ = std::chrono::steady_clock::now() + *command_.timeout;
  if (const int code = load(); code != kExitOk) return code;
  if (command_.follow) return follow();
  const auto found = weights();
  if (!found.ok()) return report(found.status());
  const auto result = evaluate(*found);
  if (!result.ok()) return report(result.status());
  print(*result, found->step);
  return kExitOk;
}

// Evaluates one checkpoint. One that the run removes meanwhile is passed over.
Status EvaluationRun::take(int64_t step, EvaluationRows& rows) {
  const auto path = place_.checkpoint(job_, step);
  auto weights = path.ok() ? read_weights_of_checkpoint(real_files(), *path)
                           : Result<RunWeights>(path.status());
  if (!weights.ok()) {
    LEAT_ASSIGN_OR_RETURN(const auto left, place_.checkpoints(job_));
    if (std::find(left.begin(), left.end(), step) != left.end()) return weights.status();
    std::cerr << "leat: note: the run has removed the checkpoint of step " << step
              << " before it was evaluated\n";
    return {};
  }
  LEAT_ASSIGN_OR_RETURN(const ValidationResult result, evaluate(*weights));
  place_.drop(*path);
  LEAT_RETURN_IF_ERROR(rows.add(step, json_of_row(result, step)));
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
    path = place_.job().empty() ? place_.folder() + "/evaluations.jsonl"
                                : place_.job() + "-evaluations.jsonl";
  EvaluationRows rows(path);
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

int run_evaluate(const EvaluateCommand& command) { return EvaluationRun(command).run(); }

}  // namespace leat
