#include "daemon/training/trainer.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "daemon/base/json_line.h"
#include "daemon/hosts/local_hosts.h"
#include "daemon/spec/load_graph.h"
#include "daemon/training/run_folder.h"
#include "daemon/training/train_specs.h"
#include "daemon/training/trainer_state.h"
#include "devices/base/counted.h"
#include "devices/base/sha256.h"
#include "devices/base/text.h"
#include "ops/definitions/row_shape.h"
#include "ops/formats/safetensors.h"
#include "ops/formats/weights_hash.h"

namespace leat {
namespace {

// Seconds between two rows of the metrics that have a rate.
constexpr double kBetweenRates = 1;

// '*' stands for any characters, '?' for one.
bool matches_glob(std::string_view pattern, std::string_view text) {
  if (pattern.empty()) return text.empty();
  if (pattern[0] == '*') {
    for (size_t i = 0; i <= text.size(); ++i) {
      if (matches_glob(pattern.substr(1), text.substr(i))) return true;
    }
    return false;
  }
  return !text.empty() && (pattern[0] == '?' || pattern[0] == text[0]) &&
         matches_glob(pattern.substr(1), text.substr(1));
}

// A plan's program makes the variables that it touches: do these make all of init's?
bool make_all(const std::vector<std::shared_ptr<const Plan>>& plans, const Plan& init) {
  std::set<std::pair<std::string, std::string>> made;  // by device
  for (const auto& plan : plans) {
    for (const Partition& partition : plan->partitions) {
      for (const PlanResource& resource : partition.resources)
        made.emplace(partition.device, resource.name);
    }
  }
  for (const Partition& partition : init.partitions) {
    for (const PlanResource& resource : partition.resources) {
      if (made.count({partition.device, resource.name}) == 0) return false;
    }
  }
  return true;
}

}  // namespace

Result<std::unique_ptr<Trainer>> Trainer::create(const Catalogue& catalogue, Files& files, Job job,
                                                 TrainOptions options,
                                                 std::unique_ptr<HostGroup> hosts) {
  std::unique_ptr<Trainer> trainer(
      new Trainer(catalogue, files, std::move(job), std::move(options)));
  trainer->threads_ = trainer->options_.threads;
  trainer->hosts_ = std::move(hosts);
  LEAT_RETURN_IF_ERROR(trainer->inspect());
  trainer->spent("data and model");
  return trainer;
}

Result<std::unique_ptr<Trainer>> Trainer::create(const Catalogue& catalogue, Files& files, Job job,
                                                 TrainOptions options) {
  const int workers = options.workers > 0 ? options.workers : static_cast<int>(job.num_workers);
  if (options.threads <= 0) options.threads = std::max(1, cpu::usable_cores() / workers);
  auto hosts = make_local_hosts(workers, options.threads, files);
  return create(catalogue, files, std::move(job), std::move(options), std::move(hosts));
}

void Trainer::spent(std::string_view what) {
  const auto now = clock_.steady();
  const std::chrono::duration<double> time = now - std::exchange(spent_until_, now);
  spent_.push_back(cat(what, " ", std::round(time.count() * 1000) / 1000));
}

Status Trainer::inspect() {
  for (HostHandle* worker : hosts_->hosts()) worker->set_data_root(job_.name, job_.data.root);
  LEAT_ASSIGN_OR_RETURN(const DatasetReport train, inspect(job_.data.train));
  train_info_ = train.info;
  data_order_ = {job_.global_batch_size, job_.data.shuffle, train_info_.count, train.features_print,
                 train.labels_print};
  if (job_.data.validation) {
    LEAT_ASSIGN_OR_RETURN(const DatasetReport validation, inspect(*job_.data.validation));
    validation_info_ = validation.info;
  }
  if (options_.resume && job_.model.graph.ends_with(".onnx")) {
    const auto from = checkpoints_.newest();
    every_float_ = from && from->every_float;
  }
  LEAT_ASSIGN_OR_RETURN(Model model,
                        load_model(files_, catalogue_, job_.model.graph, every_float_));
  LEAT_ASSIGN_OR_RETURN(const auto graph, files_.open(job_.model.graph));
  LEAT_ASSIGN_OR_RETURN(graph_sha256_, sha256_of(*graph));
  LEAT_RETURN_IF_ERROR(check_size(job_.model.graph, model.training, job_.shards));
  model_ = std::make_unique<Graph>(std::move(model.training));
  inference_model_ = std::make_unique<Graph>(std::move(model.inference));
  batch_ = std::move(model.batch);
  notes_ = std::move(model.notes);
  graph_data_ = std::move(model.data);
  LEAT_RETURN_IF_ERROR(check_constraints());
  LEAT_RETURN_IF_ERROR(check_batch());
  LEAT_RETURN_IF_ERROR(check_records(job_.data.train, train_info_));
  if (job_.data.validation)
    LEAT_RETURN_IF_ERROR(check_records(*job_.data.validation, validation_info_));
  total_steps_ = job_.steps > 0 ? job_.steps : 0;
  epochs_ = job_.epochs;
  if (total_steps_ == 0) total_steps_ = steps_until_epoch(job_.epochs);
  if (epochs_ == 0) {
    epochs_ = 1;
    while (steps_until_epoch(epochs_) < total_steps_) ++epochs_;
  }
  learning_rates_ = spec();
  has_accuracy_ = std::find(job_.metrics.begin(), job_.metrics.end(), Job::Metric::accuracy) !=
                  job_.metrics.end();
  return {};
}

// What all workers see.
Result<DatasetReport> Trainer::inspect(const Job::Files& files) const {
  const std::vector<HostHandle*>& workers = hosts_->hosts();
  LEAT_ASSIGN_OR_RETURN(DatasetReport first, workers[0]->inspect(dataset_files(files), 0));
  for (size_t w = 1; w < workers.size(); ++w) {
    if (are_local(*workers[0], *workers[w])) continue;
    LEAT_ASSIGN_OR_RETURN(const DatasetReport other, workers[w]->inspect(dataset_files(files), 0));
    const auto same = [&](const std::string& name, const std::string& a, const std::string& b) {
      if (a == b) return Status();
      return failed_precondition(cat("'", name, "': expected the same data on all workers, ",
                                     workers[0]->name(), " has ", a, ", ", workers[w]->name(),
                                     " has ", b));
    };
    LEAT_RETURN_IF_ERROR(same(files.features, first.features_print, other.features_print));
    LEAT_RETURN_IF_ERROR(same(files.labels, first.labels_print, other.labels_print));
  }
  return first;
}

DatasetFiles Trainer::dataset_files(const Job::Files& files) const {
  return {std::string(name_of(files.format)), files.features, files.labels, job_.data.root};
}

// Checks that a step has as many rows as the model takes, if the model fixes their number.
Status Trainer::check_batch() const {
  const int64_t rows = job_.global_batch_size / job_.shards;
  if (!batch_.fixed || *batch_.fixed == rows) return {};
  const std::string& graph = job_.model.graph;
  const bool divides = job_.global_batch_size % *batch_.fixed == 0;
  return invalid_argument(
      cat("'", graph, "': its batch is fixed at ", counted(*batch_.fixed, "row"), " (", batch_.why,
          "): expected global_batch_size / shards to be ", *batch_.fixed, ", received ",
          job_.global_batch_size, " / ", job_.shards,
          divides ? cat("; write shards: ", job_.global_batch_size / *batch_.fixed, ", or") : ";",
          graph.ends_with(".onnx")
              ? " export it for any batch, in PyTorch with torch.onnx.export(model, args, path, "
                "dynamic_shapes=({0: 'batch'},))"
              : " give its input a batch of any size, such as [N, ...]"));
}

// That the model and the loss can take what the files hold.
Status Trainer::check_records(const Job::Files& files, const DatasetInfo& info) const {
  if (job_.loss == Job::Loss::cross_entropy && !is_int(info.label_dtype)) {
    return invalid_argument(
        cat("'", files.labels,
            "': expected classes as integers, as the loss cross_entropy needs, received ",
            info.label_dtype));
  }
  if (model_->inputs().empty()) return {};  // refused when the training graph is made
  const ValueType& input = model_->value(model_->inputs()[0]).type;
  if (fits_row(info.record_shape, input.shape)) return check_labels(files, info);
  return invalid_argument(cat("'", files.features, "': expected records of the shape of a row of ",
                              model_->type_text(input), ", the input of '", job_.model.graph,
                              "', received ", info.record_dtype, info.record_shape,
                              layout_hint(info.record_shape, input.shape)));
}

// That the labels fit the model's output. Here, and not in the step that reads them, perhaps hours
// later.
Status Trainer::check_labels(const Job::Files& files, const DatasetInfo& info) const {
  if (model_->outputs().empty()) return {};
  const ValueType& output = model_->value(model_->outputs()[0]).type;
  const bool classes = job_.loss == Job::Loss::cross_entropy;
  const int first = classes ? 2 : 1;  // dimension of a row's label, after the classes
  if (output.shape.rank() < first) return {};
  if (!fits_row(info.label_shape, output.shape, first)) {
    return invalid_argument(cat(
        "'", files.labels, "': expected ",
        classes ? "a class for each row of " : "labels of the shape of a row of ",
        model_->type_text(output), ", the output of '", job_.model.graph, "', received ",
        info.label_dtype, info.label_shape, layout_hint(info.label_shape, output.shape, first)));
  }
  if (!classes || !output.shape[1].is_constant()) return {};
  return hosts_->hosts()[0]->inspect(dataset_files(files), output.shape[1].factor).status();
}

// Batches run on across epochs: an epoch ends with the step that takes its last record.
int64_t Trainer::steps_until_epoch(int64_t epoch) const {
  return (epoch * train_info_.count + job_.rows_per_step() - 1) / job_.rows_per_step();
}

TrainSpec Trainer::spec() const {
  TrainSpec spec;
  spec.input.reader = reader_attrs(job_.data.train, train_info_, job_.data.shuffle, job_.seed);
  spec.input.rescale = job_.data.rescale;
  spec.loss = job_.loss == Job::Loss::cross_entropy ? LossKind::cross_entropy : LossKind::mse;
  spec.accuracy = has_accuracy_;
  spec.optimizer = optimizer_spec(job_.optimizer);
  spec.schedule = schedule_spec(job_.lr_scheduler, total_steps_);
  spec.global_batch = job_.global_batch_size;
  spec.shards = job_.shards;
  spec.precision = job_.precision;
  const auto freeze = job_.model.freeze;
  spec.frozen = [freeze](const std::string& name) {
    return std::any_of(freeze.begin(), freeze.end(),
                       [&](const std::string& pattern) { return matches_glob(pattern, name); });
  };
  return spec;
}

PlanOptions Trainer::plan_options(const std::string& what, int64_t shards) const {
  PlanOptions options;
  options.name = job_.name + "/" + what;
  options.strategy = name_of(job_.strategy);
  options.shards = static_cast<int>(shards);
  options.workers = static_cast<int>(workers());
  options.servers = static_cast<int>(job_.parameter_server.num_ps);
  options.variable_servers = servers_;
  return options;
}

// Of what all workers do together: those that train by themselves need not be as many as shards.
int64_t Trainer::common_shards() const {
  const bool apart = job_.asynchronous() || job_.has_quorum();
  return apart ? std::max(job_.shards, workers()) : job_.shards;
}

// A variable is on one server, whichever graph of the job touches it.
Status Trainer::assign_servers() {
  if (job_.strategy != Job::Strategy::parameter_server || !servers_.empty()) return {};
  LEAT_ASSIGN_OR_RETURN(const JobGraph init, make_init_graph(*model_, job_.precision));
  LEAT_ASSIGN_OR_RETURN(const JobGraph train, make_train_graph(*model_, spec()));
  servers_ =
      spread_variables({&init.graph, &train.graph}, static_cast<int>(job_.parameter_server.num_ps));
  return {};
}

// What one replica does on several workers is for the graph to say.
Status Trainer::check_constraints() const {
  if (job_.strategy != Job::Strategy::single || job_.num_workers == 1) return {};
  for (NodeId id = 0; id < model_->nodes(); ++id) {
    if (!model_->node(id).device.empty()) return {};
  }
  return invalid_argument(cat("num_workers: expected 1 with strategy single and a graph without ",
                              "device constraints, received ", job_.num_workers,
                              "; change num_workers, or write strategy: mirrored"));
}

// One graph could put a variable where another does not look for it.
Status Trainer::check_one_holder() const {
  std::map<std::string, std::string> holder;
  for (const auto& [device, names] : holds_) {
    for (const std::string& name : names) {
      const auto [it, first] = holder.emplace(name, device);
      if (first) continue;
      return invalid_argument(cat("variable '", name, "': expected one device, it is on ",
                                  it->second, " and on ", device,
                                  "; constrain its Variable and Initialize nodes as well"));
    }
  }
  return {};
}

// Compiles one of the job's graphs, and notes which device holds which variables.
Result<std::shared_ptr<const Plan>> Trainer::compile(JobGraph graph, const PlanOptions& options) {
  LEAT_ASSIGN_OR_RETURN(auto plan, hosts_->compile(std::move(graph), options));
  for (const Partition& partition : plan->partitions) {
    for (const PlanResource& resource : partition.resources) {
      if (resource.op->full_name() != "leat.Variable") continue;
      holds_[partition.device].insert(resource.name);
      variable_bytes_[resource.name] = resource.bytes;
    }
  }
  if (job_.strategy != Job::Strategy::mirrored) LEAT_RETURN_IF_ERROR(check_one_holder());
  return plan;
}

Result<std::vector<std::shared_ptr<const Plan>>> Trainer::plan_training() {
  LEAT_RETURN_IF_ERROR(assign_servers());
  LEAT_ASSIGN_OR_RETURN(JobGraph graph, make_train_graph(*model_, spec()));
  PlanOptions options = plan_options("train", job_.shards);
  const bool common = !job_.asynchronous();
  options.recoverable = common && !job_.has_quorum();
  options.skips_not_finite = skips();
  std::vector<std::shared_ptr<const Plan>> plans;
  if (job_.has_quorum()) {
    const Job::ParameterServer& servers = job_.parameter_server;
    options.quorum = {static_cast<int>(servers.replicas_to_aggregate),
                      servers.dropped_samples == Job::DroppedSamples::requeue};
  }
  if (common && !job_.has_quorum()) {
    LEAT_ASSIGN_OR_RETURN(auto plan, compile(std::move(graph), options));
    plans.push_back(std::move(plan));
    return plans;
  }
  if (common) {
    LEAT_ASSIGN_OR_RETURN(auto plan, compile(graph, options));
    plans.push_back(std::move(plan));
  }
  for (int w = 0; w < static_cast<int>(workers()); ++w) {
    options.name = cat(job_.name, "/train ", w);
    (common ? options.quorum.replica : options.asynchronous_worker) = w;
    LEAT_ASSIGN_OR_RETURN(auto plan, compile(graph, options));
    plans.push_back(std::move(plan));
  }
  return plans;
}

Status Trainer::open_folder() {
  LEAT_RETURN_IF_ERROR(files_.make_directories(options_.folder));
  LEAT_RETURN_IF_ERROR(files_.make_directories(checkpoints_.folder()));
  LEAT_ASSIGN_OR_RETURN(
      const std::string graph,
      keep_graph(files_, options_.folder, {job_.model.graph, graph_data_}, options_.resume));
  // What goes on has it, mostly: it need not wait for a disk.
  const std::string text = print_run_job(job_, options_.folder, graph);
  const std::string path = options_.folder + "/job.yaml";
  const auto bytes = std::as_bytes(std::span(text.data(), text.size()));
  const auto there = read_file(files_, path, text.size());
  if (!there.ok() || !std::equal(there->begin(), there->end(), bytes.begin(), bytes.end()))
    LEAT_RETURN_IF_ERROR(write_file_atomically(files_, path, bytes));
  LEAT_ASSIGN_OR_RETURN(metrics_,
                        MetricsLog::open(files_, metrics_path(), done_, checkpoints_.metrics()));
  return {};
}

// What workers hold of an attempt before is what new variables are: zero.
Status Trainer::clear() {
  for (HostHandle* worker : hosts_->hosts()) {
    LEAT_ASSIGN_OR_RETURN(Variables held, worker->read_variables(job_.name));
    if (held.empty()) continue;
    for (auto& [name, value] : held) value = Tensor(value.dtype(), value.shape());
    LEAT_RETURN_IF_ERROR(worker->write_variables(job_.name, held, Restore::everything, {}));
  }
  return {};
}

Status Trainer::compile_plans() {
  LEAT_RETURN_IF_ERROR(assign_servers());
  LEAT_ASSIGN_OR_RETURN(JobGraph graph, make_init_graph(*model_, job_.precision));
  if (!graph.targets.empty()) {
    LEAT_ASSIGN_OR_RETURN(init_, compile(std::move(graph), plan_options("init", common_shards())));
  }
  graph.graph = Graph(catalogue_);  // its memory is wanted for the next
  LEAT_ASSIGN_OR_RETURN(training_plans_, plan_training());
  return {};
}

// Makes the model's variables on every worker that has none yet, and fills all of them.
Status Trainer::make_variables(bool fill) {
  if (!init_ || (!fill && make_all(training_plans_, *init_))) return {};
  LEAT_ASSIGN_OR_RETURN(auto run, hosts_->run(init_, job_.name, {"init", job_.seed, 0}));
  if (!fill) return {};
  run->extend(1);
  return run->wait(0, last_moment(), true).while_doing("initializing the variables");
}

Status Trainer::restore(const Variables& values, Restore what, std::optional<uint64_t> step) {
  std::set<std::string> held;
  for (const auto& [device, names] : holds_) held.insert(names.begin(), names.end());
  bool first = true;
  for (HostHandle* worker : hosts_->hosts()) {
    const std::set<std::string>& names = holds_[worker->device_name()];
    // What nobody holds goes to the first, which refuses it.
    Variables own;
    for (const auto& [name, value] : values) {
      if (names.count(name) || (first && !held.count(name))) own.emplace(name, value);
    }
    LEAT_RETURN_IF_ERROR(worker->write_variables(job_.name, own, what, step));
    first = false;
  }
  return {};
}

// Each from the first worker that holds it.
Result<Variables> Trainer::variables() {
  Variables all;
  for (HostHandle* worker : hosts_->hosts()) {
    const std::set<std::string>& names = holds_[worker->device_name()];
    if (std::all_of(names.begin(), names.end(), [&](auto& name) { return all.count(name) > 0; }))
      continue;
    LEAT_ASSIGN_OR_RETURN(auto here, worker->read_variables(job_.name));
    all.merge(here);
  }
  return all;
}

Status Trainer::start_training(bool fill) {
  if (options_.survivors && fill && done_ == 0)
    LEAT_RETURN_IF_ERROR(clear().while_doing("clearing what workers held"));
  LEAT_RETURN_IF_ERROR(make_variables(fill));
  if (!job_.model.weights.empty() && done_ == 0) {
    LEAT_ASSIGN_OR_RETURN(const SafeTensors weights, read_safetensors(files_, job_.model.weights));
    LEAT_RETURN_IF_ERROR(restore(weights.tensors, Restore::weights, {})
                             .while_doing(cat("loading ", job_.model.weights)));
  }
  training_.reset();
  std::vector<std::unique_ptr<PlanRun>> runs;
  for (const auto& plan : training_plans_) {
    // Workers that step by themselves draw random numbers of their own.
    RunOptions options{"train", job_.seed + runs.size() * 0x9e3779b97f4a7c15,
                       static_cast<uint64_t>(done_), options_.profile};
    options.endless = job_.has_quorum() && !runs.empty();  // a replica's
    options.trains = true;
    LEAT_ASSIGN_OR_RETURN(auto run, hosts_->run(plan, job_.name, options));
    runs.push_back(std::move(run));
  }
  if (job_.asynchronous()) {
    training_ = steps_apart(std::move(runs), done_);
  } else {
    auto first = std::move(runs[0]);
    runs.erase(runs.begin());
    training_ = runs.empty() ? steps_together(std::move(first), done_)
                             : steps_of_quorum(std::move(first), std::move(runs),
                                               static_cast<size_t>(job_.shards), done_);
  }
  return job_.data.validation ? prepare_evaluation() : Status();
}

Result<TrainOutcome> Trainer::run(TrainObserver& observer, const std::function<bool()>& stop) {
  std::optional<Checkpoint> from;
  int64_t on_disk = 0;
  if (!options_.resume) {
    LEAT_RETURN_IF_ERROR(checkpoints_.expect_none());
  } else if (options_.survivors) {
    on_disk = checkpoints_.follow_newest().value_or(0);
  } else if (!options_.begin_anew) {
    LEAT_ASSIGN_OR_RETURN(from, newest_checkpoint(observer));
  }
  // What can be wrong with the job shows here, before anything of an earlier run is replaced.
  LEAT_RETURN_IF_ERROR(compile_plans());
  spent("plans");
  LEAT_RETURN_IF_ERROR(make_way(observer));
  // Memory first: a large checkpoint takes long to read and to verify.
  LEAT_ASSIGN_OR_RETURN(std::optional<Memory> memory, find_memory(on_disk));
  if (options_.resume && !from && !memory) {
    auto read = newest_checkpoint(observer);
    const int64_t least = read.ok() ? read->manifest.step : 0;
    if (least < on_disk) {  // the newest ones are damaged
      LEAT_ASSIGN_OR_RETURN(memory, find_memory(least));
    }
    if (!memory && read.ok()) {
      from = std::move(*read);
    } else if (!memory) {
      LEAT_ASSIGN_OR_RETURN(from, begin_anew(read.status(), observer));
    }
  }
  if (from) done_ = from->manifest.step;
  if (memory) done_ = memory->step;
  spent("what is held");
  LEAT_RETURN_IF_ERROR(start_training(!memory));
  spent("runs");
  if (memory) {
    LEAT_RETURN_IF_ERROR(restore(*memory).while_doing("restoring what workers held"));
    observer.noted(cat("went on at step ", done_, " from the memory of ", memory->holder));
  } else if (from) {
    LEAT_RETURN_IF_ERROR(restore(from->variables, Restore::everything, static_cast<uint64_t>(done_))
                             .while_doing("restoring the checkpoint"));
    if (from->manifest.graph != graph_sha256_)
      observer.warned(cat(job_.model.graph, " is not the graph that the checkpoint of step ", done_,
                          " was written with"));
  }
  spent("variables");
  const auto open = [&]() -> Status {
    if (!memory) LEAT_RETURN_IF_ERROR(set_aside_damaged(observer));
    return open_folder();
  };
  LEAT_RETURN_IF_ERROR(retry_for_room(open, observer, stop));
  LEAT_RETURN_IF_ERROR(open_metrics(memory, observer));
  observer.resumed(done_, memory ? TrainSource::memory
                          : from ? TrainSource::checkpoint
                                 : TrainSource::start);
  from.reset();
  spent("folder");
  if (options_.survivors) observer.noted("ready to go on, in seconds: " + join(spent_, ", "));
  observer.started(done_, total_steps_);
  checkpoints_.start();

  // A quorum may have trained without some of its workers, but evaluates on all: what it has done
  // is saved, and evaluated by those who go on.
  const auto evaluated = [&]() -> Result<std::optional<Evaluation>> {
    if (needs_others()) return std::optional<Evaluation>();
    auto evaluation = evaluate();
    const bool spares = job_.has_quorum() && options_.yields;
    if (!spares || evaluation.status().code() != Code::unavailable) return evaluation;
    observer.warned(cat("not evaluated: ", evaluation.status().message()));
    return std::optional<Evaluation>();
  };

  TrainOutcome outcome;
  Progress progress;
  while (has_ended(progress.epoch)) ++progress.epoch;
  LEAT_RETURN_IF_ERROR(recall(progress, observer));
  for (; progress.epoch <= epochs_ && !outcome.interrupted; ++progress.epoch) {
    progress.epoch_begin = steps_until_epoch(progress.epoch - 1);
    const int64_t epoch_end = end_of(progress.epoch);
    observer.epoch_begun(progress.epoch, epochs_, epoch_end - progress.epoch_begin,
                         done_ - progress.epoch_begin);
    while (done_ < epoch_end && !outcome.interrupted) {
      LEAT_RETURN_IF_ERROR(train_to(epoch_end, progress, observer, stop));
      if (abandoned_) return abandoned(observer);
      outcome.interrupted = stop();
      LEAT_RETURN_IF_ERROR(checkpoint_if_due(observer));
      if (is_to_yield() && done_ < epoch_end) return yield(observer, stop);
    }
    if (outcome.interrupted) break;  // who goes on ends the epoch
    std::optional<Evaluation> validation;
    if (job_.data.validation) {
      LEAT_ASSIGN_OR_RETURN(validation, evaluated());
      if (!validation) return yield(observer, stop);
      outcome.validation = validation;
    }
    LEAT_RETURN_IF_ERROR(end_epoch(progress, validation, observer));
  }
  if (!outcome.validation && job_.data.validation && !outcome.interrupted) {
    LEAT_ASSIGN_OR_RETURN(outcome.validation, evaluated());
    if (!outcome.validation) return yield(observer, stop);
  }
  if (progress.seconds > 0)
    outcome.samples_per_second =
        static_cast<double>(progress.trained * job_.global_batch_size) / progress.seconds;
  outcome.dropped_rows =
      static_cast<int64_t>(progress.dropped) * job_.global_batch_size / job_.shards;
  if (job_.has_quorum()) observer.noted(quorum_note(outcome.dropped_rows));
  const auto leave = [&]() -> Status {
    LEAT_RETURN_IF_ERROR(last_checkpoint(observer));
    return finish(outcome);
  };
  LEAT_RETURN_IF_ERROR(retry_for_room(leave, observer, stop));
  return outcome;
}

// That verifies, and is of this job.
Result<Checkpoint> Trainer::newest_checkpoint(TrainObserver& observer) {
  std::vector<std::string> refused;
  auto newest = checkpoints_.resume(refused);
  for (const std::string& reason : refused)
    observer.warned("a checkpoint was passed over: " + reason);
  if (newest.ok()) LEAT_RETURN_IF_ERROR(check_checkpoint(newest->manifest));
  return newest;
}

std::string Trainer::quorum_note(int64_t dropped_rows) const {
  const bool requeue = job_.parameter_server.dropped_samples == Job::DroppedSamples::requeue;
  return cat("quorum ", job_.parameter_server.replicas_to_aggregate, " of ", job_.num_workers, ": ",
             dropped_rows, " rows came too late for their step, and were ",
             requeue ? "computed again" : "dropped", "; the weights depend on timing");
}

// Steps up to `fence`, or up to where `stop` or a checkpoint that they cannot pass ends it: all
// workers then stand after the same step.
Status Trainer::train_to(int64_t fence, Progress& progress, TrainObserver& observer,
                         const std::function<bool()>& stop) {
  const auto begun = std::chrono::steady_clock::now();
  progress.rated_at = begun;  // an evaluation may have come between
  progress.rated = progress.trained;
  int64_t allowed = done_;
  if (!passing_) announced_ = done_;
  std::optional<std::chrono::steady_clock::time_point> stop_due;
  while (done_ < fence) {
    LEAT_RETURN_IF_ERROR(collect_checkpoint(observer, false));
    LEAT_RETURN_IF_ERROR(checkpoint_if_passed(observer));
    if (asked_to_yield() && metrics_->is_behind()) LEAT_RETURN_IF_ERROR(metrics_->flush());
    if (!writing_ && is_overdue()) fence = std::max(allowed, done_ + 1);
    if (is_to_yield()) {
      if (allowed > done_ && !std::exchange(held_, true)) {
        LEAT_ASSIGN_OR_RETURN(allowed, training_->hold());
      }
    } else if (!stop()) {
      allowed = std::min(announce_checkpoint(fence), done_ + training_->window());
      training_->extend(allowed);
    } else if (!stop_due && options_.stop_grace.count() > 0) {
      stop_due = std::chrono::steady_clock::now() + options_.stop_grace;
    }
    if (done_ == allowed) break;
    LEAT_RETURN_IF_ERROR(wait_for_step(stop_due, observer, stop));
    for (const std::string& loss : training_->take_losses()) {
      observer.warned(loss);
      lost_some_ = true;
    }
    if (abandoned_) return metrics_->flush();
    const int64_t finished = training_->finished();
    while (done_ < finished) LEAT_RETURN_IF_ERROR(consume(done_++, progress, observer));
  }
  LEAT_RETURN_IF_ERROR(training_->drain(last_moment()));
  progress.seconds +=
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
  return checkpoint_if_passed(observer);
}

// Waits for the step after those that are done, however long it takes, but not past `stop_due`,
// which begins when `stop` says so: the run is then abandoned.
Status Trainer::wait_for_step(std::optional<std::chrono::steady_clock::time_point> stop_due,
                              TrainObserver& observer, const std::function<bool()>& stop) {
  const auto begun = std::chrono::steady_clock::now();
  auto told = begun;
  for (auto now = begun;; now = std::chrono::steady_clock::now()) {
    if (!held_ && is_to_yield()) return {};
    if (!stop_due && options_.stop_grace.count() > 0 && stop())
      stop_due = now + options_.stop_grace;
    if (stop_due && now >= *stop_due) return abandon();
    const auto until = std::min(now + kStopPoll, told + options_.slow_step);
    if (training_->settled(done_, std::min(stop_due.value_or(until), until))) break;
    if (now - told < options_.slow_step) continue;
    told = now;
    const Status why = training_->wait(done_, now);
    if (training_->settled(done_, now)) break;
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(now - begun).count();
    observer.warned(cat("step ", done_ + 1, " takes ", seconds, " s so far: ", why.message()));
  }
  return training_->wait(done_, std::chrono::steady_clock::now());
}

Status Trainer::abandon() {
  abandoned_ = true;
  training_->abort(cancelled("the job is to stop"));
  return {};
}

// The workers are between two steps, each somewhere else: what there is, is on disk.
Result<TrainOutcome> Trainer::abandoned(TrainObserver& observer) {
  LEAT_RETURN_IF_ERROR(collect_checkpoint(observer, true));
  TrainOutcome outcome;
  outcome.interrupted = true;
  outcome.steps = done_;
  outcome.checkpoint = checkpoints_.last_path();
  return outcome;
}

Status Trainer::consume(int64_t step, Progress& progress, TrainObserver& observer) {
  const double loss = computed(training_->fetched_scalar(0, step));
  std::optional<double> accuracy;
  if (has_accuracy_) accuracy = computed(training_->fetched_scalar(1, step));
  bool skipped = false;
  std::vector<double> values{loss};
  if (accuracy) values.push_back(*accuracy);
  if (job_.has_quorum()) {
    values.push_back(training_->fetched_scalar(has_accuracy_ ? 2 : 1, step));
    progress.dropped += values.back();
  }
  if (skips()) {
    values.push_back(training_->fetched_scalar(has_accuracy_ ? 2 : 1, step));
    skipped = std::isnan(values.back());
  }
  progress.add(loss, accuracy, skipped);
  ++progress.trained;
  LEAT_RETURN_IF_ERROR(log_row(step, values, rate_if_due(progress)));
  progress.last.skipped_steps = metrics_->skipped_steps();
  observer.stepped(step + 1 - progress.epoch_begin, progress.last);
  if (skipped) note_skipped(step, loss, observer);
  if (std::isfinite(loss) || job_.on_nan != Job::OnNan::fail) return {};
  return not_finite(step, loss, observer);
}

// Samples a second since the last time that there was one.
std::optional<double> Trainer::rate_if_due(Progress& progress) const {
  const auto now = std::chrono::steady_clock::now();
  const double seconds = std::chrono::duration<double>(now - progress.rated_at).count();
  if (seconds < kBetweenRates) return std::nullopt;
  progress.rated_at = now;
  const int64_t steps = progress.trained - std::exchange(progress.rated, progress.trained);
  return static_cast<double>(steps * job_.global_batch_size) / seconds;
}

// A step's fetches, in the plan's order.
Status Trainer::log_row(int64_t step, const std::vector<double>& values,
                        std::optional<double> samples_per_second) {
  std::vector<std::string_view> names{"loss"};
  if (has_accuracy_) names.push_back("accuracy");
  if (job_.has_quorum()) names.push_back("dropped");
  if (skips()) names.push_back(kSkipped);
  std::vector<StepMetric> row;
  for (size_t i = 0; i < std::min(names.size(), values.size()); ++i) {
    const bool f32 = job_.precision == DType::f32 && names[i] != "dropped";
    if (names[i] == kSkipped)  // from the guard, which is 0 or NaN
      row.push_back({names[i], std::isnan(values[i]) ? 1.0 : 0.0});
    else if (f32)
      row.push_back({names[i], static_cast<float>(values[i])});
    else
      row.push_back({names[i], values[i]});
  }
  if (!job_.asynchronous()) {
    const double rate = learning_rate_at(learning_rates_, step);
    if (job_.precision == DType::f32)
      row.push_back({"learning_rate", static_cast<float>(rate)});
    else
      row.push_back({"learning_rate", rate});
  }
  return metrics_->append(step + 1, row, samples_per_second);
}

Status Trainer::finish(TrainOutcome& outcome) {
  outcome.steps = done_;
  outcome.skipped_steps = metrics_->skipped_steps();
  outcome.lost_metrics = metrics_->loss();
  outcome.checkpoint = checkpoints_.last_path();
  if (options_.profile) outcome.profile = training_->profile();
  LEAT_ASSIGN_OR_RETURN(auto weights, variables());
  std::erase_if(weights,
                [](const auto& named) { return named.first.starts_with(kOptimizerPrefix); });
  outcome.weights_sha256 = weights_sha256(weights);
  if (!outcome.interrupted) {
    SafeTensors content;
    content.tensors = weights;
    content.metadata = {{"format", "pt"}, {"leat.step", std::to_string(done_)}};
    if (trains_parameters()) content.metadata.emplace(kTrainsKey, kTrainsParameters);
    LEAT_RETURN_IF_ERROR(
        write_safetensors(files_, options_.folder + "/weights.safetensors", content));
  }
  return metrics_->sync();
}

}  // namespace leat
