// A training job on a cluster: compiles its graphs, steps them, evaluates, writes checkpoints and
// what the run leaves behind. Who watches implements TrainObserver.
//
// A run's folder:
//   job.yaml              the job as it runs, every key written out
//   model.onnxtxt         a copy of the model's graph; graph/model.onnx if it has data beside it
//   metrics.jsonl         one object a step, and one an epoch: daemon/metrics/metrics_log.h
//   checkpoints/step-N/   see daemon/checkpoint/checkpoint_store.h
//   weights.safetensors   the trained weights, written at the end
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/checkpoint/job_checkpoints.h"
#include "daemon/hosts/host_group.h"
#include "daemon/metrics/metrics_log.h"
#include "daemon/spec/job.h"
#include "daemon/training/checkpoint_task.h"
#include "daemon/training/training_steps.h"
#include "devices/base/clock.h"
#include "devices/base/files.h"
#include "ops/data/dataset.h"
#include "ops/graph/free_batch.h"
#include "scheduler/graph/train_graph.h"

namespace leat {

// Whether a training is to come to its end before its last step, so that another one goes on: from
// what workers hold then, or from a checkpoint.
enum class TrainYield : uint8_t { no, kept, saved };

struct TrainOptions {
  std::string folder;    // of the run; made if it is not there
  bool resume = false;   // go on from the folder's newest checkpoint
  int threads = 0;       // of each worker; 0: the usable cores shared out evenly
  bool profile = false;  // time the kernels of the training steps
  // How long after `stop` the workers may take to come to a common step, where they write a last
  // checkpoint. Past it they are aborted, and what they did since the newest checkpoint is lost.
  // 0: as long as it takes.
  std::chrono::milliseconds stop_grace{0};
  // A checkpoint that is due while one is being written is left out; false: steps wait for the
  // other one.
  bool skip_checkpoints = true;
  // The workers may hold what an earlier attempt at this very job left: go on from there if that is
  // as far as the newest checkpoint, or farther; that is not read then. Without a checkpoint and
  // without such workers the training begins.
  bool survivors = false;
  // If no checkpoint of the folder is whole, and no worker holds a step, the job begins once more,
  // which ends with the same weights unless they depend on timing; damaged checkpoints are set
  // aside. `first_checkpoint` puts the one that the job began with into the folder, and says
  // whether there was one.
  bool begin_anew = false;
  std::function<Result<bool>()> first_checkpoint = {};
  int workers = 0;  // that it trains on; 0: the job's num_workers
  // Asked all the time, on the thread of run(); may be empty. Past the last step it is too late.
  std::function<TrainYield()> yields = {};
  // If it is to save what workers hold then, and the last checkpoint found no room, it trains on,
  // and so much later tries another one.
  std::chrono::milliseconds save_again{10000};
  // A step that takes longer is warned of, with who waits for what, and waited for.
  std::chrono::milliseconds slow_step{120000};
};

// The result of a step, and the mean over the steps of its epoch that are done and not skipped.
struct StepResult {
  double loss = 0;
  std::optional<double> accuracy;
  double mean_loss = 0;
  std::optional<double> mean_accuracy;
  int64_t skipped_steps = 0;  // of the job so far: see Job::OnNan::skip
};

struct Evaluation {
  double loss = 0;  // mean over the rows
  std::optional<double> accuracy;
};

// What a training goes on from.
enum class TrainSource : uint8_t {
  start,       // nothing: it begins
  checkpoint,  // of its folder
  memory,      // of workers that hold a whole step
};
std::string_view name_of(TrainSource source);  // "start"

struct TrainOutcome {
  std::string weights_sha256;            // empty if the workers were aborted: see stop_grace
  std::optional<Evaluation> validation;  // of the last evaluation
  double samples_per_second = 0;         // of training, evaluation left out
  int64_t steps = 0;                     // done
  bool interrupted = false;
  bool yielded = false;    // all workers stand after `steps`; there is no weights_sha256
  bool saved = false;      // if it has yielded: there is a checkpoint of `steps`, or they are none
  std::string checkpoint;  // the last one written; may be empty
  std::string profile;     // with TrainOptions::profile: a table for people
  // Of a job with a quorum: rows that were computed for a step that was closed without them.
  int64_t dropped_rows = 0;
  int64_t skipped_steps = 0;  // of all that are done
  MetricsLoss lost_metrics;   // what metrics.jsonl does not have of this training
};

// What happens, in order, on the thread that calls run().
class TrainObserver {
 public:
  virtual ~TrainObserver() = default;
  virtual void started(int64_t first_step, int64_t steps) = 0;
  // Before it has started: with so many steps done, from where.
  virtual void resumed(int64_t /*step*/, TrainSource /*from*/) {}
  // After it has started, if steps were done before: the last epochs that had ended...
  virtual void epoch_recalled(const EpochResult& /*result*/) {}
  // ... and what the last step gave, in which epoch.
  virtual void recalled(int64_t /*epoch*/, int64_t /*epochs*/, const StepResult& /*last*/) {}
  virtual void epoch_begun(int64_t epoch, int64_t epochs, int64_t steps_of_epoch,
                           int64_t first_step) = 0;
  virtual void stepped(int64_t step_of_epoch, const StepResult& result) = 0;
  virtual void epoch_ended(const EpochResult& result) = 0;
  virtual void checkpointed(int64_t step, const std::string& path) = 0;
  virtual void warned(const std::string& message) = 0;
  // Before it has started: rows of metrics.jsonl are gone for good. Also warned of.
  virtual void lost_metrics(const MetricsLoss& /*loss*/) {}
  // All of it stands still until something outside changes; "": it goes on.
  virtual void waits(const std::string& /*for_what*/) {}
  // What is worth a line in a log, and no worry.
  virtual void noted(const std::string& /*message*/) {}
};

// A job's model, layers expanded.
struct Model {
  Graph training;
  Graph inference;
  ModelBatch batch;                // of its input
  std::vector<std::string> notes;  // of whoever read the file, for people
  std::vector<std::string> data;   // as LoadedGraph has it
};
// In the metadata of a run's weights.safetensors, with kTrainsParameters, if the model is an .onnx
// file of which the parameters alone are trained. Older runs have none: see OnnxOptions.
inline constexpr const char* kTrainsKey = "leat.trains";

// `every_float`: see OnnxOptions.
Result<Model> load_model(Files& files, const Catalogue& catalogue, const std::string& path,
                         bool every_float = false);

class Trainer {
 public:
  // Reads the model and the data set's headers; invalid input ends here. `catalogue` and `files`
  // outlive the trainer. All workers of the cluster must see the same data: failed_precondition
  // names two that do not.
  static Result<std::unique_ptr<Trainer>> create(const Catalogue& catalogue, Files& files, Job job,
                                                 TrainOptions options,
                                                 std::unique_ptr<HostGroup> hosts);
  // On workers in this process.
  static Result<std::unique_ptr<Trainer>> create(const Catalogue& catalogue, Files& files, Job job,
                                                 TrainOptions options);

  // Trains until the job's last step, or until `stop` is true between two steps. unavailable and
  // deadline_exceeded may pass: another attempt, with resume, on other workers may succeed. Other
  // errors would come again.
  Result<TrainOutcome> run(TrainObserver& observer, const std::function<bool()>& stop);

  int64_t total_steps() const { return total_steps_; }
  int64_t rows() const { return train_info_.count; }  // of the data that it trains on
  int64_t workers() const { return options_.workers > 0 ? options_.workers : job_.num_workers; }
  int threads() const { return threads_; }
  const Job& job() const { return job_; }
  // Of the model's file, for people: see LoadedGraph::notes.
  const std::vector<std::string>& notes() const { return notes_; }
  // The plan of the training step, compiled but not run: what `leat plan` shows. Asynchronous
  // training has one for each worker, and training with a quorum the one that closes the steps, and
  // one for each replica.
  Result<std::vector<std::shared_ptr<const Plan>>> plan_training();

 private:
  Trainer(const Catalogue& catalogue, Files& files, Job job, TrainOptions options)
      : catalogue_(catalogue),
        files_(files),
        job_(std::move(job)),
        options_(std::move(options)),
        checkpoints_(checkpoints_of(job_, options_, files, clock_)) {}
  struct Progress;
  struct Memory;

  static JobCheckpoints checkpoints_of(const Job& job, const TrainOptions& options, Files& files,
                                       const Clock& clock);
  // What the time since the last one went to.
  void spent(std::string_view what);
  Status inspect();
  Result<DatasetReport> inspect(const Job::Files& files) const;
  DatasetFiles dataset_files(const Job::Files& files) const;
  Status check_batch() const;
  Status check_records(const Job::Files& files, const DatasetInfo& info) const;
  Status check_labels(const Job::Files& files, const DatasetInfo& info) const;
  Status check_checkpoint(const Manifest& from) const;
  Result<Checkpoint> newest_checkpoint(TrainObserver& observer);
  bool may_begin_anew(const Status& why) const;
  Result<std::optional<Checkpoint>> begin_anew(const Status& why, TrainObserver& observer);
  Status set_aside_damaged(TrainObserver& observer);
  Status make_way(TrainObserver& observer);
  Status open_folder();
  Status assign_servers();
  Status check_one_holder() const;
  Status check_constraints() const;
  Result<std::shared_ptr<const Plan>> compile(JobGraph graph, const PlanOptions& options);
  Status compile_plans();
  Status clear();
  Status make_variables(bool fill);
  Status restore(const Variables& values, Restore what, std::optional<uint64_t> step);
  Result<std::optional<Memory>> find_memory(int64_t least);
  Status restore(const Memory& memory);
  Status log_rows(const Memory& memory);
  Status recall(Progress& progress, TrainObserver& observer);
  Status start_training(bool fill);
  Status train_to(int64_t fence, Progress& progress, TrainObserver& observer,
                  const std::function<bool()>& stop);
  std::string metrics_path() const { return options_.folder + "/metrics.jsonl"; }
  Status open_metrics(const std::optional<Memory>& memory, TrainObserver& observer);
  Status log_row(int64_t step, const std::vector<double>& values,
                 std::optional<double> samples_per_second = std::nullopt);
  Status consume(int64_t step, Progress& progress, TrainObserver& observer);
  bool skips() const { return job_.on_nan == Job::OnNan::skip; }
  void note_skipped(int64_t step, double loss, TrainObserver& observer) const;
  Status not_finite(int64_t step, double loss, TrainObserver& observer);
  std::string drop_bad_checkpoint(int64_t step);
  Result<std::string> find_not_finite(int64_t step);
  Status go_back(int64_t step);
  std::optional<double> rate_if_due(Progress& progress) const;
  bool has_ended(int64_t epoch) const;
  int64_t end_of(int64_t epoch) const { return std::min(total_steps_, steps_until_epoch(epoch)); }
  Status end_epoch(Progress& progress, const std::optional<Evaluation>& validation,
                   TrainObserver& observer);
  bool asked_to_yield() const;
  bool saves_to_yield() const;
  bool may_yield() const;
  bool is_to_yield() const;
  bool needs_others() const;
  bool is_overdue() const;
  Result<TrainOutcome> yield(TrainObserver& observer, const std::function<bool()>& stop);
  Status retry_for_room(const std::function<Status()>& attempt, TrainObserver& observer,
                        const std::function<bool()>& stop);
  Status wait_for_step(std::optional<std::chrono::steady_clock::time_point> stop_due,
                       TrainObserver& observer, const std::function<bool()>& stop);
  Status abandon();
  Result<TrainOutcome> abandoned(TrainObserver& observer);
  Status prepare_evaluation();
  std::string quorum_note(int64_t dropped_rows) const;
  Result<std::optional<Evaluation>> evaluate();
  int64_t evaluation_rows() const;
  Manifest manifest(int64_t step) const;
  Status begin_checkpoint(int64_t step, bool taken);
  void note_no_checkpoint(int64_t step, const Status& why, TrainObserver& observer);
  Status checkpoint(int64_t step, bool taken, TrainObserver& observer);
  Status checkpoint_if_due(TrainObserver& observer);
  int64_t announce_checkpoint(int64_t fence);
  Status checkpoint_if_passed(TrainObserver& observer);
  Status collect_checkpoint(TrainObserver& observer, bool wait);
  Status last_checkpoint(TrainObserver& observer);
  Status finish(TrainOutcome& outcome);
  Result<Variables> variables();
  bool trains_parameters() const { return job_.model.graph.ends_with(".onnx") && !every_float_; }
  int64_t steps_until_epoch(int64_t epoch) const;
  TrainSpec spec() const;
  int64_t common_shards() const;
  PlanOptions plan_options(const std::string& what, int64_t shards) const;

  const Catalogue& catalogue_;
  Files& files_;
  Job job_;
  TrainOptions options_;
  int threads_ = 1;
  int64_t total_steps_ = 0, epochs_ = 1;
  DatasetInfo train_info_, validation_info_;
  DataOrder data_order_;
  std::unique_ptr<Graph> model_, inference_model_;
  ModelBatch batch_;
  std::vector<std::string> notes_;
  std::vector<std::string> graph_data_;  // files that the graph has its data in
  std::unique_ptr<HostGroup> hosts_;
  VariableServers servers_;                             // strategy parameter_server
  std::map<std::string, std::set<std::string>> holds_;  // by device: names of its variables
  std::map<std::string, uint64_t> variable_bytes_;      // by name
  std::shared_ptr<const Plan> init_;                    // null without variables
  std::vector<std::shared_ptr<const Plan>> training_plans_;
  std::unique_ptr<TrainingSteps> training_;
  std::shared_ptr<const Plan> evaluation_;  // null without validation data
  bool has_accuracy_ = false;
  TrainSpec learning_rates_;  // for learning_rate_at()
  int64_t done_ = 0;          // steps of the job
  bool abandoned_ = false;    // the workers are at no common step
  bool held_ = false;         // they go no further
  bool lost_some_ = false;    // of a quorum's replicas
  std::unique_ptr<MetricsLog> metrics_;
  RealClock clock_;
  JobCheckpoints checkpoints_;
  std::optional<Clock::Steady> no_room_;  // when the last checkpoint found none
  std::string graph_sha256_;
  bool every_float_ = false;  // it goes on from a checkpoint that was written under that rule
  Clock::Steady spent_until_ = clock_.steady();
  std::vector<std::string> spent_;  // "plans 0.12"
  int64_t announced_ = 0;           // checkpoints up to this step: to the workers, or not at all
  std::optional<int64_t> passing_;  // the last one of them, until all workers have passed it
  std::unique_ptr<CheckpointTask> writing_;  // one that is being written; it uses what is above
};

}  // namespace leat
