#include "daemon/training/run_evaluator.h"

#include <algorithm>
#include <utility>

#include "daemon/hosts/local_hosts.h"
#include "daemon/training/averaged_weights.h"
#include "devices/base/text.h"
#include "devices/cpu/cpu_device.h"
#include "scheduler/recipes/optimizer.h"

namespace leat {
namespace {

Job without_average(Job job) {
  job.optimizer.ema = 0;
  return job;
}

}  // namespace

Job on_one_host(Job job) {
  job.shards = training_rules(job, job.num_workers).common_shards;
  job.strategy = "mirrored";
  job.parameter_server = {};
  job.num_workers = 1;
  job.min_workers = job.gpus_per_worker = 0;
  return job;
}

RunEvaluator::RunEvaluator(const Catalogue& catalogue, Files& files, Job job,
                           std::unique_ptr<HostGroup> hosts, std::unique_ptr<TrainingInput> input)
    : ema_(job.optimizer.ema),
      job_(without_average(std::move(job))),
      hosts_(std::move(hosts)),
      input_(std::move(input)),
      parts_(
          evaluation_parts(catalogue, files, job_, options_, *hosts_, *input_, input_->validation)),
      plans_(parts_),
      validation_(parts_, plans_) {}

Status check_evaluates(const Job& job) {
  if (job.program)
    return invalid_argument(cat("job '", job.name,
                                "': expected a loss to evaluate, received a program, which has "
                                "its own training"));
  if (job.data.validation) return {};
  return invalid_argument(cat("job '", job.name,
                              "': expected data.validation, or --data with other data, received "
                              "none"));
}

Result<std::unique_ptr<RunEvaluator>> RunEvaluator::create(const Catalogue& catalogue, Files& files,
                                                           Job job, bool every_float, int threads) {
  auto hosts = make_local_hosts(1, threads > 0 ? threads : cpu::usable_cores(), files);
  return create(catalogue, files, std::move(job), every_float, std::move(hosts));
}

Result<std::unique_ptr<RunEvaluator>> RunEvaluator::create(const Catalogue& catalogue, Files& files,
                                                           Job job, bool every_float,
                                                           std::unique_ptr<HostGroup> hosts) {
  LEAT_RETURN_IF_ERROR(check_evaluates(job));
  job = on_one_host(std::move(job));
  LEAT_ASSIGN_OR_RETURN(auto input,
                        read_evaluation_input(catalogue, files, job, *hosts, every_float));
  // All of it there, wherever it was trained.
  Graph& model = input->model.inference;
  for (NodeId id = 0; id < model.nodes(); ++id) model.node(id).device.clear();
  std::unique_ptr<RunEvaluator> made(
      new RunEvaluator(catalogue, files, std::move(job), std::move(hosts), std::move(input)));
  // It also makes the variables.
  LEAT_RETURN_IF_ERROR(made->validation_.prepare());
  return made;
}

Result<ValidationResult> RunEvaluator::evaluate(Variables weights, int64_t step,
                                                const std::function<bool()>& stop) {
  if (ema_ > 0) weights = averaged_weights(weights, ema_);
  // The state of an optimizer may be twice as large as the weights, and travels for nothing.
  std::erase_if(weights, [](const auto& each) { return each.first.starts_with(kOptimizerPrefix); });
  LEAT_RETURN_IF_ERROR(
      hosts_->hosts()[0]->write_variables(job_.name, weights, Restore::superset, {}));
  weights.clear();  // the host has them
  LEAT_ASSIGN_OR_RETURN(auto result, validation_.evaluate(step, stop));
  if (!result) return cancelled("the evaluation was told to end");
  return *std::move(result);
}

int64_t RunEvaluator::rows() const {
  const int64_t rows = input_->validation.info.count, most = job_.validation.rows;
  return most > 0 ? std::min(rows, most) : rows;
}

}  // namespace leat
