#include "daemon/training/trainer.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "daemon/hosts/local_hosts.h"
#include "daemon/training/train_specs.h"
#include "daemon/training/training_start.h"
#include "daemon/training/validation.h"
#include "devices/base/counted.h"
#include "devices/base/text.h"
#include "scheduler/compile/compile.h"

namespace leat {
namespace {

JobCheckpoints checkpoints_of(const Job& job, const TrainOptions& options, Files& files) {
  const Job::Checkpoint& c = job.checkpoint;
  return JobCheckpoints(
      files, training_clock(), c.path.empty() ? options.folder + "/checkpoints" : c.path,
      {c.every_steps, std::chrono::duration<double>(c.every_minutes * 60), c.keep});
}

}  // namespace

Trainer::Trainer(const Catalogue& catalogue, Files& files, Job job, TrainOptions options,
                 std::unique_ptr<HostGroup> hosts, std::unique_ptr<TrainingInput> input,
                 PhaseTimes times)
    // The order of the members: each is made of those before it, and the parts refer to all of
    // them.
    : job_(std::move(job)),
      options_(std::move(options)),
      hosts_(std::move(hosts)),
      input_(std::move(input)),
      parts_(training_parts(catalogue, files, job_, options_, *hosts_, *input_)),
      times_(std::move(times)),
      checkpoints_(checkpoints_of(job_, options_, files)),
      plans_(parts_),
      variables_(parts_, plans_) {}

Result<std::unique_ptr<Trainer>> Trainer::create(const Catalogue& catalogue, Files& files, Job job,
                                                 TrainOptions options,
                                                 std::unique_ptr<HostGroup> hosts) {
  if (!job.evaluates.empty()) {
    return invalid_argument(cat("job '", job.name,
                                "': evaluates: expected none in a training, "
                                "received job '",
                                job.evaluates, "', which leat submit has a cluster evaluate"));
  }
  PhaseTimes times(training_clock());
  bool every_float = false;  // a training keeps to the rule of its checkpoints
  // The model is read before the checkpoint, but the rule by which its floats are trained is in the
  // checkpoint's manifest: only that is read here.
  if (options.resume && job.model.graph.ends_with(".onnx")) {
    const auto from = checkpoints_of(job, options, files).newest();
    every_float = from && from->every_float;
  }
  LEAT_ASSIGN_OR_RETURN(auto input, read_input(catalogue, files, job, *hosts, every_float));
  times.end("data and model");
  return std::unique_ptr<Trainer>(new Trainer(catalogue, files, std::move(job), std::move(options),
                                              std::move(hosts), std::move(input),
                                              std::move(times)));
}

Result<std::unique_ptr<Trainer>> Trainer::create(const Catalogue& catalogue, Files& files, Job job,
                                                 TrainOptions options) {
  const int workers = static_cast<int>(workers_of_training(job, options));
  // All hosts are in this process, so they share its cores.
  if (options.threads <= 0) options.threads = std::max(1, cpu::usable_cores() / workers);
  auto hosts =
      make_local_hosts(workers, options.threads, files, options.accelerators, options.recorded);
  set_save_folder(hosts->hosts(), job.name, saved_folder(options));
  return create(catalogue, files, std::move(job), std::move(options), std::move(hosts));
}

Result<std::vector<std::shared_ptr<const Plan>>> Trainer::plan_training() {
  return plans_.compile_training();
}

Result<std::vector<std::shared_ptr<const Plan>>> Trainer::plan_evaluations() {
  return Validation(parts_, plans_).plans();
}

uint64_t Trainer::initial_value_bytes() const { return leat::initial_value_bytes(input_->model); }

Result<TrainOutcome> Trainer::run(TrainObserver& observer, const std::function<bool()>& stop) {
  StartFinder finder(parts_, variables_, checkpoints_, observer);
  // A folder with checkpoints of another training must not cost the time of a compilation.
  LEAT_RETURN_IF_ERROR(finder.look_at_disk());
  // Errors in the job show here, before anything of an earlier run is replaced.
  LEAT_RETURN_IF_ERROR(plans_.compile());
  times_.end("plans");
  size_t again = 0;
  for (const auto& plan : plans_.training()) again += computed_again(*plan);
  if (again > 0) {
    observer.noted(cat(counted(again, "value"), " of each step ", again == 1 ? "is" : "are",
                       " computed again, because the memory of the workers is too small to keep ",
                       again == 1 ? "it" : "them"));
  }
  // From here on the training writes into the folder.
  LEAT_RETURN_IF_ERROR(make_way(parts_, checkpoints_.folder(), observer));
  LEAT_ASSIGN_OR_RETURN(TrainingStart start, finder.find());
  times_.end("what is held");
  loop_ = std::make_unique<TrainingLoop>(parts_, plans_, variables_, checkpoints_, observer, stop);
  // The hosts have the first values now, or those of a checkpoint. Another attempt reads them from
  // the file of the model again.
  const auto forget = [this] {
    plans_.drop_init();
    drop_initial_values(input_->model);
  };
  LEAT_RETURN_IF_ERROR(loop_->open(std::move(start), forget, times_));
  if (options_.survivors) observer.noted("ready to go on, in seconds: " + times_.text());
  return loop_->run();
}

}  // namespace leat
