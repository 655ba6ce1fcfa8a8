#include <unistd.h>

#include <filesystem>
#include <iostream>
#include <optional>

#include "daemon/checkpoint/run_copier.h"
#include "daemon/cli/commands.h"
#include "daemon/cli/event_program.h"
#include "daemon/cli/events.h"
#include "daemon/cli/follower.h"
#include "daemon/cli/interrupt.h"
#include "daemon/cli/job_events.h"
#include "daemon/cli/missing_files.h"
#include "daemon/cli/run_files.h"
#include "daemon/cli/save_signal.h"
#include "daemon/cli/step_trace.h"
#include "daemon/training/best_epoch.h"
#include "daemon/training/run_folder.h"
#include "daemon/training/trainer.h"
#include "devices/base/counted.h"
#include "devices/base/text.h"
#include "devices/core/kernel_ways.h"
#include "devices/cpu/cpu_device.h"
#include "ops/catalogue.h"
#include "ops/plugins.h"

namespace leat {
namespace {

// The GPUs that a job trains on, or none.
struct Accelerators {
  std::string model;                              // "" if there are none
  std::vector<std::shared_ptr<KernelWays>> ways;  // of each that counts them
};

// Shows the progress of the training to people on stderr, and with --json to programs on stdout.
class Reporter final : public TrainObserver {
 public:
  // May be null, each of them.
  struct Parts {
    EventProgram* program;  // of --on-event
    RunCopier* copier;
    StepTrace* trace;
  };
  Reporter(const TrainCommand& command, const Trainer& trainer, std::string folder,
           Accelerators accelerators, Parts parts)
      : command_(command),
        trainer_(trainer),
        program_(parts.program),
        copier_(parts.copier),
        trace_(parts.trace),
        folder_(std::move(folder)),
        accelerators_(std::move(accelerators)),
        progress_(std::cerr, clock_, stderr_is_terminal(), terminal_width()) {
    // The weights may differ on a processor of another model, so its name goes with them.
    const std::string& gpu = accelerators_.model;
    identity_ = {trainer.job().shards, trainer.job().seed,
                 gpu.empty() ? cpu::cpu_model() : cat(cpu::cpu_model(), ", ", gpu),
                 precision_of_weights(trainer.job())};
  }

  const RunIdentity& identity() const { return identity_; }
  // How all kernels compute that were made on GPUs so far; "" if there are none.
  std::string gpu_kernels() const {
    KernelWays all;
    for (const auto& ways : accelerators_.ways) all.add(*ways);
    return all.text();
  }
  bool depends_on_timing() const { return trainer_.job().depends_on_timing(); }

  void started(int64_t first_step, int64_t steps) override {
    const Job& job = trainer_.job();
    std::cerr << "Training " << job.name << ": " << counted(steps, "step") << " of "
              << counted(job.global_batch_size, "row") << ", " << describe_strategy(job)
              << ", workers " << job.num_workers << ", threads " << trainer_.threads()
              << ", shards " << job.shards << ", seed " << job.seed
              << precision_clause(identity_.precision) << "\n"
              << "Run folder: " << printable(folder_) << "\n";
    if (first_step > 0) std::cerr << "Going on after step " << first_step << "\n";
    StartedEvent event;
    event.job = job.name;
    event.run = folder_;
    event.steps = steps;
    event.start_step = first_step;
    event.global_batch_size = job.global_batch_size;
    event.strategy = job.strategy;
    event.workers = job.num_workers;
    event.threads = trainer_.threads();
    event.identity = identity_;
    emit(json_of(event));
    step_ = first_step;
    if (trace_ != nullptr)
      trace_->begin(static_cast<uint64_t>(first_step), static_cast<uint64_t>(steps));
    tell(started_event(job.name, first_step, steps));
  }

  // All events come on the thread of run_train(), so the class needs no lock.
  void epoch_begun(int64_t epoch, int64_t epochs, int64_t steps, int64_t first_step) override {
    progress_.begin_epoch(epoch, epochs, steps, first_step, trainer_.job().global_batch_size);
  }

  void stepped(int64_t step, const StepResult& result) override {
    ++step_;
    values_.clear();
    values_.push_back({"loss", result.mean_loss});
    if (result.mean_accuracy) values_.push_back({"accuracy", *result.mean_accuracy});
    for (const NamedNumber& each : result.mean_more) values_.push_back({each.name, each.value});
    progress_.update(step, values_);
  }

  void epoch_ended(const EpochResult& result) override {
    progress_.end_epoch(values_of(result));
    EpochEvent event;
    event.epoch = result.epoch;
    event.step = static_cast<int64_t>(result.step);
    event.seconds = result.seconds;
    event.samples_per_second = is_known(result.samples_per_second) ? result.samples_per_second : 0;
    event.loss = result.loss;
    const auto known = [](double value) {
      return is_known(value) ? std::optional(value) : std::nullopt;
    };
    event.accuracy = known(result.accuracy);
    event.val_loss = known(result.val_loss);
    event.val_accuracy = known(result.val_accuracy);
    event.more = result.more;
    emit(json_of(event));
    tell(epoch_event(trainer_.job().name, result));
  }

  // An evaluation between epochs gets a line of its own; the line of the epoch follows it.
  void validated(const ValidationResult& result) override {
    std::vector<NamedValue> values;
    for (const auto& [name, value] : result.numbers) values.push_back({name, value});
    progress_.break_line();
    std::cerr << "Step " << result.step << format_values(values) << "\n";
    emit(json_of(ValidationEvent{result.step, result.numbers}));
    tell(validation_event(trainer_.job().name, result.step, result.numbers));
  }

  void checkpointed(int64_t step, const std::string& path) override {
    emit(json_of(CheckpointEvent{step, path}));
    tell(checkpoint_event(trainer_.job().name, step));
    if (copier_ == nullptr) return;
    copier_->offer(step);
    tell_copy_warnings();
  }

  // Writes the recording of --trace, if there is one.
  void finish_trace() {
    if (trace_ == nullptr) return;
    const auto told = trace_->finish(trainer_.job().name);
    if (!told.ok()) return warned(told.status().message());
    progress_.break_line();
    std::cerr << printable_lines(*told);
  }

  // Waits until the copy has all that the run has left, or until `stop`; tells what it lacks.
  void finish_copy(const std::function<bool()>& stop) {
    if (copier_ == nullptr) return;
    progress_.break_line();
    std::cerr << "Copying the run to " << printable(copier_->place()) << "\n";
    const Status whole = copier_->finish(kCopyPatience, stop);
    tell_copy_warnings();
    if (!whole.ok()) warned(whole.message());
  }

  // The line of the epoch ends first, so that the message does not come into its middle.
  void warned(const std::string& message) override {
    progress_.break_line();
    std::cerr << "warning: " << printable(message) << "\n";
  }

  void noted(const std::string& message) override {
    progress_.break_line();
    std::cerr << "note: " << printable(message) << "\n";
  }

  // Flushed at each event, because programs wait for them.
  void emit(const std::string& line) {
    if (command_.json) std::cout << line << std::flush;
  }
  void break_line() { progress_.break_line(); }
  // Tells the program of --on-event how the training has ended.
  void tell_end(std::string_view how, const std::string& reason,
                const std::string& weights_sha256) {
    tell(ended_event(trainer_.job().name, how, step_, reason, weights_sha256));
  }

 private:
  void tell_copy_warnings() {
    for (const std::string& warning : copier_->take_warnings()) warned(warning);
  }
  void tell(std::string line) {
    if (program_ != nullptr) program_->send(std::move(line));
  }

  const TrainCommand& command_;
  const Trainer& trainer_;
  EventProgram* const program_;
  RunCopier* const copier_;
  StepTrace* const trace_;
  int64_t step_ = 0;  // steps of the job that are done
  const std::string folder_;
  const Accelerators accelerators_;
  RealClock clock_;
  ProgressLine progress_;
  std::vector<NamedValue> values_;  // of the step that it shows
  RunIdentity identity_;
};

// Returns the first of leat-runs/NAME, NAME-2, NAME-3, ... that does not exist.
std::string fresh_folder(const std::string& name) {
  for (int i = 1;; ++i) {
    const std::string folder = cat("leat-runs/", name, i == 1 ? "" : cat("-", i));
    if (!std::filesystem::exists(folder)) return folder;
  }
}

// A resumed run goes on in its own folder. Without --output, a new one gets a folder that does not
// exist yet.
std::string folder_of(const TrainCommand& command, const std::string& name) {
  if (!command.resume.empty()) return command.resume;
  return command.output.empty() ? fresh_folder(name) : command.output;
}

// Prints a hint about the data if the graph of a run from another machine is there: a run's folder
// contains everything except its data.
void hint_at_data(const Job& job) {
  const auto graph = real_files().exists(job.model.graph);
  if (!graph.ok() || !*graph) return;
  std::cerr
      << "A run keeps no data: name the folder that it has here, with --set data.root=PATH.\n";
}

// "Validation accuracy 91.5 %, loss 0.2350, f1 0.9120"; "" without any metric.
std::string validation_line(const Evaluation& validation) {
  if (!validation.accuracy && validation.metrics.empty()) return "";
  std::string line = "Validation ";
  if (validation.accuracy)
    line += cat("accuracy ", format_value(*validation.accuracy * 100), " %, ");
  line += "loss " + format_value(validation.loss);
  for (const NamedNumber& each : validation.metrics)
    line += cat(", ", each.name, " ", format_value(each.value));
  return line + "\n";
}

int finish(const TrainCommand& command, Reporter& reporter, const std::string& folder,
           const TrainOutcome& outcome, const Interrupt& interrupt) {
  // The training may have stopped within an epoch, whose line is then still open.
  reporter.break_line();
  std::cerr << printable_lines(outcome.profile);
  // The last event of an interrupted training says where it can go on.
  if (outcome.interrupted) {
    reporter.emit(json_of(InterruptedEvent{folder, outcome.steps, outcome.checkpoint}));
    reporter.tell_end("cancelled", "interrupted", "");
    std::cerr << "Interrupted after step " << outcome.steps << "; checkpoint "
              << printable(outcome.checkpoint) << "\n"
              << "Go on with: leat train --resume " << printable(folder) << "\n";
    return interrupt.exit_code();
  }
  FinishedEvent event;
  event.run = folder;
  event.weights_sha256 = outcome.weights_sha256;
  if (outcome.validation) {
    event.val_loss = outcome.validation->loss;
    event.val_accuracy = outcome.validation->accuracy;
    for (const NamedNumber& each : outcome.validation->metrics)
      event.more.push_back({"val_" + each.name, each.value});
  }
  event.samples_per_second = outcome.samples_per_second;
  event.steps = outcome.steps;
  event.steps_skipped = outcome.skipped_steps;
  event.metrics_missing_rows = outcome.lost_metrics.missing_rows();
  event.metrics_changed_until = outcome.lost_metrics.changed_until;
  event.depends_on_timing = reporter.depends_on_timing();
  event.identity = reporter.identity();
  event.gpu_kernels = reporter.gpu_kernels();
  reporter.emit(json_of(event));
  reporter.tell_end("succeeded", "", event.weights_sha256);
  if (outcome.validation) std::cerr << validation_line(*outcome.validation);
  if (outcome.best) {
    std::cerr << "Best weights " << printable(folder) << "/" << kBestWeights << ", of epoch "
              << outcome.best->epoch << "\n";
  }
  std::cerr << "Weights " << printable(folder) << "/weights.safetensors\n"
            << "  sha256 " << outcome.weights_sha256 << "\n"
            << "  (shards " << event.identity.shards << ", seed " << event.identity.seed
            << precision_clause(event.identity.precision) << ", " << event.identity.cpu
            << (event.depends_on_timing ? "; it depends on timing: no other run gives it)\n"
                                        : ")\n");
  if (!event.gpu_kernels.empty()) std::cerr << "GPU kernels: " << event.gpu_kernels << "\n";
  if (event.steps_skipped > 0)
    std::cerr << counted(event.steps_skipped, "step") << " skipped, of " << outcome.steps << "\n";
  if (const std::string lost = outcome.lost_metrics.text(); !lost.empty())
    std::cerr << "Metrics " << folder << "/metrics.jsonl: " << lost << "\n";
  (void)command;
  return kExitOk;
}

// Copies the run's checkpoints elsewhere, if the job says so; else null. failed_precondition if the
// place has those of another training.
Result<std::unique_ptr<RunCopier>> start_copier(const Job& job, const TrainOptions& options) {
  const Job::Checkpoint& checkpoint = job.checkpoint;
  if (checkpoint.copy_to.empty()) return std::unique_ptr<RunCopier>();
  return RunCopier::create(
      real_files(), {options.folder, checkpoint.copy_to, checkpoint.keep, checkpoint_keys()},
      options.resume ? RunCopier::Start::is_resumed : RunCopier::Start::is_new);
}

// Opens a GPU for each worker that the job wants on one, before the job begins, so that a machine
// without a GPU is told so at once. The workers of this process share it.
Status open_accelerators(const TrainCommand& command, Job& job, Catalogue& catalogue,
                         TrainOptions& options, Accelerators& facts) {
  if (command.gpu) job.gpus_per_worker = 1;
  if (job.gpus_per_worker == 0) return {};
  LEAT_ASSIGN_OR_RETURN(auto opened, open_gpus(static_cast<size_t>(job.num_workers), catalogue));
  facts.model = opened.front()->description();
  for (const auto& device : opened) {
    if (auto ways = device->ways()) facts.ways.push_back(std::move(ways));
  }
  // One for each host that the trainer makes.
  const auto left = std::make_shared<std::vector<std::unique_ptr<Device>>>(std::move(opened));
  options.accelerators = [left] {
    std::vector<std::unique_ptr<Device>> one;
    one.push_back(std::move(left->back()));
    left->pop_back();
    return one;
  };
  return {};
}

Status open_keys(const TrainCommand& command, TrainOptions& options) {
  LEAT_RETURN_IF_ERROR(use_checkpoint_keys(command.checkpoint_keys));
  options.hosts_write_parts = !run_files().seals();
  if (command.sign_key.empty()) return {};
  LEAT_ASSIGN_OR_RETURN(options.key, SigningKey::open_or_make(command.sign_key));
  return {};
}

// Workers that each step by themselves have no steps in common to record.
Status check_traced(const TrainCommand& command, const Job& job) {
  if (command.trace.empty() || !job.depends_on_timing()) return {};
  return invalid_argument(cat("--trace: expected a strategy whose workers do each step together, ",
                              "received ", describe_strategy(job)));
}

}  // namespace

int run_train(const TrainCommand& command) {
  const bool resume = !command.resume.empty();
  const std::string job_file = resume ? command.resume + "/job.yaml" : command.job.file;
  if (report_missing(resume ? "run" : "job file", job_file, command.color)) return kExitNoSuch;
  auto job = resume ? load_run_job(real_files(), command.resume, command.job.overrides)
                    : load_job(job_file, command.job.overrides);
  if (!job.ok()) return report(job.status(), command.color);
  if (report_missing_files(*job, command.color)) {
    if (resume) hint_at_data(*job);
    return kExitNoSuch;
  }
  std::unique_ptr<EventProgram> program;
  if (!command.on_event.empty()) {
    auto started = EventProgram::start(command.on_event);
    if (!started.ok()) return report(started.status(), command.color);
    program = *std::move(started);
  }
  // From here on Ctrl-C ends the training with a checkpoint. Before, it ends the process at once.
  const Interrupt interrupt;
  const SaveSignal save;  // SIGUSR1
  Catalogue catalogue = standard_catalogue();
  TrainOptions options;
  Accelerators accelerators;
  Status opened = check_traced(command, *job);
  if (opened.ok()) opened = open_accelerators(command, *job, catalogue, options, accelerators);
  if (opened.ok()) opened = open_keys(command, options);
  if (!opened.ok()) return report(opened, command.color);
  options.folder = folder_of(command, job->name);
  options.resume = resume;
  options.profile = command.profile;
  options.threads = static_cast<int>(command.job.threads.value_or(0));
  options.checkpoints_asked = [&save] { return save.count(); };
  std::optional<StepTrace> trace;
  if (!command.trace.empty()) {
    trace.emplace(command.trace, static_cast<uint64_t>(command.trace_steps));
    options.recorded = trace->recorded();
  }
  const auto files = files_of_runs(RunFolders::with_others({{options.folder}}));
  auto trainer = Trainer::create(catalogue, *files, *job, options);
  if (!trainer.ok()) return report(trainer.status(), command.color);
  print_notes((*trainer)->notes());
  auto copier = start_copier(*job, options);
  if (!copier.ok()) return report(copier.status(), command.color);
  Reporter reporter(command, **trainer, options.folder, std::move(accelerators),
                    {program.get(), copier->get(), trace ? &*trace : nullptr});
  auto outcome = (*trainer)->run(reporter, [&] { return interrupt.requested(); });
  reporter.finish_trace();
  // A training that was interrupted has a checkpoint to copy. Another signal ends the process.
  const bool interrupted = interrupt.requested();
  reporter.finish_copy([&] { return !interrupted && interrupt.requested(); });
  if (!outcome.ok()) {
    reporter.break_line();
    reporter.tell_end("failed", outcome.status().message(), "");
    print_end(program.get());
    return report(outcome.status(), command.color);
  }
  const int code = finish(command, reporter, options.folder, *outcome, interrupt);
  print_end(program.get());
  return code;
}

}  // namespace leat
