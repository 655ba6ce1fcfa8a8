// A training job: the content of the YAML job file, checked and with its defaults filled in.
// docs/job.md explains every key.
//
// Threads: a value.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/spec/queue_terms.h"
#include "devices/base/dtype.h"
#include "devices/base/status.h"
#include "ops/data/sharding.h"
#include "scheduler/recipes/loss.h"
#include "scheduler/recipes/metric.h"
#include "scheduler/recipes/optimizer.h"
#include "scheduler/recipes/schedule.h"
#include "scheduler/recipes/transform.h"

namespace leat {

struct Strategy;

// A job. The names of its fields follow the keys of the job file.
struct Job {
  struct Model {
    std::string graph;    // path of the graph file
    std::string weights;  // path of a file of weights to start from; empty: initializers
    // From names in that file to names of variables. The first glob that matches a name counts, and
    // the text of each of its stars takes the place of that '*' in the second name.
    std::vector<std::pair<std::string, std::string>> rename_weights;
    // The file must have each of the model's variables and nothing else.
    bool strict_weights = true;
    std::vector<std::string> train;   // globs of names of variables that are trained; empty: all
    std::vector<std::string> freeze;  // globs of names of those among them that are not trained
    // The column of the data that each input of the graph reads. An input that is not named here
    // reads the column of its own name; the only input of a graph may read the only column that is
    // not the labels.
    std::map<std::string, std::string> inputs;
    // Values of inputs, which are constants of the graph: "12", "[1, 2]". See fixed_inputs_of().
    std::map<std::string, std::string> fixed;
    // The graph's outputs that the job uses; the loss and the metrics are of the first one. Empty:
    // all of the graph's.
    std::vector<std::string> outputs;
    bool operator==(const Model&) const = default;
  };

  struct Files {
    std::string format = "idx";  // the name of a SourceFormat of ops/data/source_formats.h
    // Below data.root, in the form that the format has: "COLUMN=PATH" for each column, or paths.
    std::vector<std::string> files;
    int64_t window = 0;        // tokens: the tokens of a row
    int64_t stride = 0;        // tokens: from the beginning of a row to that of the next one
    DType dtype = DType::u16;  // tokens: of files without a header
    // All other formats: their options, as texts that SourceOptions::parse() reads.
    std::vector<std::string> options = {};
    // False if the format makes its rows without files. A mixture has those of its parts.
    bool has_files() const { return !files.empty() || format == "mixture"; }
    bool operator==(const Files&) const = default;
  };

  struct Data {
    std::string root;
    Files train;  // without files: the job has no data
    std::optional<Files> validation;
    // The other sets of data that evaluations cover, by name, in the order of the file, and the
    // name of `validation` beside them. The first one needs no name where it is alone.
    std::vector<std::pair<std::string, Files>> more_validation;
    std::string validation_name;
    // The columns that the job reads, as parse_column_view() of ops/data/dataset_files.h reads
    // them: "tokens=window[:-1]". Empty: all columns of the files.
    std::vector<std::string> columns;
    double rescale = 1;                  // inputs of floats are multiplied by it
    std::vector<Transform> transforms;   // of the columns, in their order
    bool shuffle = true;                 // shuffle the training rows, in a new order for each epoch
    Sharding sharding = Sharding::data;  // of the training rows
    bool operator==(const Data&) const = default;
  };

  // A graph that brings its own training. Each list has names of nodes, or of values, whose nodes
  // count.
  struct Program {
    std::vector<std::string> init;   // run once, after the Initialize nodes of variables
    std::vector<std::string> step;   // empty: all nodes with effects, but for init
    std::vector<std::string> fetch;  // of each step, one number each; empty: the graph's outputs
    bool operator==(const Program&) const = default;
  };

  enum class Mode { sync, async };
  enum class DroppedSamples { requeue, drop };
  struct ParameterServer {  // the options of strategies that use servers
    Mode mode = Mode::sync;
    int64_t num_ps = 1;  // at most num_workers; server i is on worker i
    // Mode sync: the number of replicas, out of num_workers, whose gradients complete a step. 0:
    // all.
    int64_t replicas_to_aggregate = 0;
    DroppedSamples dropped_samples = DroppedSamples::requeue;  // of the replicas that were late
    bool operator==(const ParameterServer&) const = default;
  };

  struct Validation {
    int64_t every_steps = 0;  // evaluations within an epoch; 0: none
    int64_t rows = 0;         // the first so many of each set; 0: all
    bool operator==(const Validation&) const = default;
  };

  // A number that each epoch has, such as "val_loss", and which of two values is better.
  struct Monitor {
    std::string metric;
    bool rises = false;  // the greater one
    bool operator==(const Monitor&) const = default;
  };
  // The job ends after an epoch when so many epochs in a row had no better number than the best
  // one before. An epoch is better only if the number is by more than min_delta.
  struct EarlyStopping {
    Monitor monitor;
    int64_t patience = 1;  // epochs
    double min_delta = 0;
    bool operator==(const EarlyStopping&) const = default;
  };

  struct Checkpoint {
    // Both 0: write a checkpoint only when the run ends or is interrupted.
    int64_t every_steps = 0;
    double every_minutes = 0;
    int64_t keep = 3;             // the number of newest checkpoints to keep
    std::string path;             // empty: in the run's folder
    std::string copy_to;          // a folder or "s3://..." for a copy of the run; empty: none
    std::optional<Monitor> best;  // keep the weights of the best epoch
    bool operator==(const Checkpoint&) const = default;
  };

  // The factor of the loss in a step that computes in float16.
  struct LossScale {
    enum class Kind : uint8_t { none, fixed, dynamic } kind = Kind::none;
    double initial = 65536;          // fixed: of all steps
    int64_t growth_interval = 2000;  // dynamic: steps
    bool operator==(const LossScale&) const = default;
  };
  // With a precision of 16 bits: globs of ops, nodes and values, and the loss scale.
  struct MixedPrecision {
    std::vector<std::string> wide;    // that compute in float32
    std::vector<std::string> narrow;  // that compute in 16 bits
    LossScale loss_scale;             // float16 only
    bool operator==(const MixedPrecision&) const = default;
  };

  std::string name;
  // On a cluster: the id of a job whose checkpoints this one evaluates, in place of a training.
  // Empty: it trains.
  std::string evaluates;
  Model model;
  Data data;
  std::optional<Program> program;  // in place of the loss, the metrics and the optimizer
  // The entry and its settings, of the first term if the loss is a sum; and the other terms.
  LossSpec loss;
  std::vector<LossSpec> more_losses;
  std::vector<MetricSpec> metrics;
  std::optional<EarlyStopping> early_stopping;
  OptimizerSpec optimizer;
  ScheduleSpec lr_scheduler;
  Monitor plateau;                // of a schedule that looks at epochs
  int64_t global_batch_size = 0;  // over all shards; a multiple of shards
  int64_t epochs = 0;             // exactly one of epochs and steps is not 0
  int64_t steps = 0;
  int64_t steps_per_epoch = 0;  // 0: an epoch is one pass over the training data
  uint64_t seed = 0;
  int64_t shards = 1;                 // logical replicas: the weights depend on their number
  std::string strategy = "mirrored";  // a name of all_strategies()
  ParameterServer parameter_server;
  int64_t num_workers = 1;      // at most shards: the weights do not depend on it (but see
                                // asynchronous() and has_quorum())
  int64_t min_workers = 0;      // the least for an elastic job; 0: the job is not elastic
  int64_t gpus_per_worker = 0;  // 0 or 1: that each worker computes on, besides its CPU
  // On a cluster: the number of temporary failures within the last 1,900 steps after which the job
  // still tries again.
  int64_t max_failures = 10;
  QueueTerms queue;  // what the queue of a cluster heeds; of no meaning elsewhere
  Validation validation;
  Checkpoint checkpoint;
  // The type that a step computes in: f32, f64, bf16 or f16. Variables are of master_dtype().
  DType precision = DType::f32;
  MixedPrecision mixed;
  // A GPU may round the factors of products of float32 to TF32. CPUs do not.
  bool tf32 = false;

  // The formats in which the trained model is in the run's folder at the end.
  enum class ExportFormat { onnx, safetensors, npz };
  std::vector<ExportFormat> exports;

  // The reaction to a step whose loss is NaN or infinite: the job fails, continues, or skips the
  // step.
  enum class OnNan { fail, ignore, skip };
  OnNan on_nan = OnNan::fail;

  // The probability with which a step is audited: other workers compute it once more, and all bits
  // are compared. 0: no audits.
  double audit = 0;

  bool computes_in_16_bits() const { return is_16bit_float(precision); }
  // The type of weights, of the optimizer's state, of losses and of running statistics.
  DType master_dtype() const { return computes_in_16_bits() ? DType::f32 : precision; }
  // The factor of the loss changes with the gradients, and steps may be skipped for it.
  bool scales_loss_dynamically() const { return mixed.loss_scale.kind == LossScale::Kind::dynamic; }

  // The number whose best epoch's weights the job keeps: checkpoint.best, or that of early
  // stopping.
  std::optional<Monitor> best_by() const {
    if (checkpoint.best) return checkpoint.best;
    return early_stopping ? std::optional(early_stopping->monitor) : std::nullopt;
  }

  // The terms of the loss; one if it is no sum.
  std::vector<const LossSpec*> losses() const;
  // Only a program may have none.
  bool has_data() const { return data.train.has_files() || !data.train.options.empty(); }
  // Each evaluation has a row of its own in metrics.jsonl: the rows of epochs have no place for
  // other steps and other sets.
  bool has_validation_rows() const {
    return data.validation && (validation.every_steps > 0 || !data.more_validation.empty());
  }
  bool uses_servers() const;  // as Strategy
  // True if each worker runs its own steps. The weights then depend on timing.
  bool asynchronous() const { return uses_servers() && parameter_server.mode == Mode::async; }

  // True if a step does not wait for the slowest workers. The weights then depend on timing, too.
  bool has_quorum() const {
    return uses_servers() && parameter_server.replicas_to_aggregate > 0 &&
           parameter_server.replicas_to_aggregate < num_workers;
  }
  // True if another run of the job gives other weights.
  bool depends_on_timing() const { return asynchronous() || has_quorum(); }
  // Returns the number of rows of data in a step. Rows of late replicas do not count if they are
  // dropped.
  int64_t rows_per_step() const {
    const bool loses = has_quorum() && parameter_server.dropped_samples == DroppedSamples::drop;
    return loses ? global_batch_size / shards * num_workers : global_batch_size;
  }

  bool operator==(const Job&) const = default;
};

// The properties of the job's strategy; none of them if its name is unknown.
const Strategy& strategy_of(const Job& job);

// Changes that a command line makes to a job file.
struct JobOverrides {
  std::vector<std::string> set;        // "path.to.key=value", in order; the value is YAML
  std::optional<int64_t> num_workers;  // does not change the shards of the file
  std::optional<int64_t> seed;
  std::optional<int64_t> min_workers = {};  // only with num_workers, then the most
};

// Reads the job from `text`. Relative paths become absolute paths, relative to the folder of
// `file_name`, which messages name: invalid_argument, "file:line:column: key: expected ...,
// received ...". An override of epochs replaces steps, and vice versa.
Result<Job> parse_job(std::string_view text, const std::string& file_name,
                      const JobOverrides& overrides = {});

// The text of a job file, of at most 1 MiB. A graph file stands for a job with the program of that
// graph. Errors are those of read_file(), such as failed_precondition if there is no file.
Result<std::string> read_job_text(const std::string& path);

// Reads the job file, or the graph file of a program. If the file cannot be read, returns the error
// of read_file(), such as failed_precondition if it does not exist; otherwise the errors of
// parse_job().
Result<Job> load_job(const std::string& path, const JobOverrides& overrides = {});

// Prints the job as YAML with every key; parse_job() reads an equal job from it.
std::string print_job(const Job& job);

// The value of the key model.weights, on one line: a path, or a map.
std::string print_weights(const Job::Model& model);

// Describes the strategy for people: "mirrored", "parameter_server (sync, 2 servers)". Mentions it
// if the weights depend on timing.
std::string describe_strategy(const Job& job);

// The name of job.precision: "bfloat16".
std::string_view precision_name(DType precision);
// The precision that the weights of the job depend on: the same name, with "+tf32" behind it if the
// job computes on GPUs, which may use TF32.
std::string precision_of_weights(const Job& job);

// The names of these values in a job file, for messages and summaries.
std::string_view name_of(Job::Mode mode);
std::string_view name_of(Job::DroppedSamples dropped);
std::string_view name_of(Job::OnNan on_nan);
std::string_view name_of(Job::ExportFormat format);

}  // namespace leat
