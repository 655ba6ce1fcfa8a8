#include "daemon/training/step_gradients.h"

#include <limits>
#include <utility>

#include "daemon/hosts/local_hosts.h"
#include "daemon/training/run_evaluator.h"
#include "daemon/training/training_steps.h"
#include "devices/base/text.h"
#include "devices/cpu/cpu_device.h"
#include "scheduler/recipes/optimizer.h"

namespace leat {
namespace {

// SGD with momentum keeps m * u + g in its slot, which is the gradient itself when u is zero. So
// the slot has the gradient after one step, whatever the job's own optimizer is.
constexpr std::string_view kSlot = "/momentum";

OptimizerSpec gradient_optimizer(const OptimizerSpec& own) {
  OptimizerSpec out("sgd");
  out.values.set("momentum", 0.5);
  out.values.set("weight_decay", 0);
  // Frozen variables have no gradient.
  for (const OptimizerGroup& group : own.groups) {
    OptimizerGroup kept;
    kept.match = group.match;
    kept.freeze = group.freeze;
    out.groups.push_back(std::move(kept));
  }
  return out;
}

// The job, as far as it decides the gradients of a step.
Job gradient_job(Job job) {
  job = on_one_host(std::move(job));
  job.optimizer = gradient_optimizer(job.optimizer);
  job.lr_scheduler = ScheduleSpec();
  job.data.validation.reset();
  job.data.more_validation.clear();
  job.validation = {};
  job.metrics.clear();
  job.early_stopping.reset();
  job.checkpoint = {};
  job.on_nan = Job::OnNan::ignore;
  // Any step may be asked for.
  job.epochs = 0;
  job.steps = std::numeric_limits<int32_t>::max();
  return job;
}

}  // namespace

StepGradients::StepGradients(const Catalogue& catalogue, Files& files, Job job,
                             std::unique_ptr<HostGroup> hosts, std::unique_ptr<TrainingInput> input)
    : job_(std::move(job)),
      hosts_(std::move(hosts)),
      input_(std::move(input)),
      parts_(training_parts(catalogue, files, job_, options_, *hosts_, *input_)),
      plans_(parts_),
      variables_(parts_, plans_) {}

Result<std::unique_ptr<StepGradients>> StepGradients::create(const Catalogue& catalogue,
                                                             Files& files, Job job,
                                                             bool every_float, int threads) {
  if (job.program) {
    return invalid_argument(cat("job '", job.name,
                                "': expected a loss, whose gradients are computed, received a "
                                "program, which has its own training"));
  }
  job = gradient_job(std::move(job));
  auto hosts = make_local_hosts(1, threads > 0 ? threads : cpu::usable_cores(), files);
  LEAT_ASSIGN_OR_RETURN(auto input, read_input(catalogue, files, job, *hosts, every_float));
  // All of it here, wherever it was trained.
  Graph& model = input->model.training;
  for (NodeId id = 0; id < model.nodes(); ++id) model.node(id).device.clear();
  std::unique_ptr<StepGradients> made(
      new StepGradients(catalogue, files, std::move(job), std::move(hosts), std::move(input)));
  LEAT_RETURN_IF_ERROR(made->plans_.compile());
  return made;
}

Result<Variables> StepGradients::compute(const Variables& values, int64_t step) {
  LEAT_RETURN_IF_ERROR(variables_.make(true, step));
  LEAT_ASSIGN_OR_RETURN(auto steps, start_steps(parts_, plans_.training(), step));
  LEAT_ASSIGN_OR_RETURN(Variables state, variables_.read());
  for (auto& [name, value] : state) {
    if (name.starts_with(kOptimizerPrefix)) {
      // A loss scale is that of the checkpoint, and the slots of an earlier call become zero.
      const auto own = values.find(name);
      if (own != values.end() && !name.ends_with(kSlot)) {
        value = own->second;
      } else if (name.ends_with(kSlot)) {
        value = Tensor(value.dtype(), value.shape());
      }
      continue;
    }
    const auto found = values.find(name);
    if (found == values.end() || found->second.dtype() != value.dtype())
      return invalid_argument(
          cat("variable '", name, "': expected a value of ", dtype_name(value.dtype()),
              ", received ", found == values.end() ? "none" : dtype_name(found->second.dtype())));
    value = found->second;
  }
  LEAT_RETURN_IF_ERROR(variables_.write(state, Restore::everything, static_cast<uint64_t>(step)));
  steps->extend(step + 1);
  LEAT_RETURN_IF_ERROR(steps->wait(step, last_moment()));
  LEAT_RETURN_IF_ERROR(steps->drain(last_moment()));
  LEAT_ASSIGN_OR_RETURN(Variables after, variables_.read());
  Variables gradients;
  for (auto& [name, value] : after) {
    if (!name.starts_with(kOptimizerPrefix) || !name.ends_with(kSlot)) continue;
    gradients.emplace(
        name.substr(kOptimizerPrefix.size(), name.size() - kOptimizerPrefix.size() - kSlot.size()),
        std::move(value));
  }
  return gradients;
}

}  // namespace leat
