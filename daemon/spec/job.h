// A training job: what the YAML job file says, checked and with its defaults filled in. docs/job.md
// explains every key.
//
// Threads: a value.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "devices/base/dtype.h"
#include "devices/base/status.h"

namespace leat {

struct Strategy;

struct Job {
  struct Model {
    std::string graph;    // path of the graph file
    std::string weights;  // path of a safetensors file to start from; empty: initializers
    std::vector<std::string> freeze;  // globs over variable names that are not trained
    bool operator==(const Model&) const = default;
  };

  enum class Format { idx, npy };
  struct Files {
    Format format = Format::idx;
    std::string features;  // below data.root
    std::string labels;    // below data.root
    bool operator==(const Files&) const = default;
  };

  struct Data {
    std::string root;
    Files train;
    std::optional<Files> validation;
    double rescale = 1;   // features are multiplied by it
    bool shuffle = true;  // the training rows, anew each epoch
    bool operator==(const Data&) const = default;
  };

  enum class Loss { cross_entropy, mse };
  enum class Metric { accuracy };

  enum class OptimizerName { sgd, adam, adamw };
  struct Optimizer {
    OptimizerName name = OptimizerName::sgd;
    double learning_rate = 0;
    double weight_decay = 0;  // adamw: decoupled; the others: added to the gradient
    double momentum = 0;      // sgd
    bool nesterov = false;    // sgd
    double beta_1 = 0.9;      // adam, adamw
    double beta_2 = 0.999;    // adam, adamw
    double epsilon = 1e-8;    // adam, adamw
    bool lazy = false;        // tables: rows without a gradient stay as they are
    bool operator==(const Optimizer&) const = default;
  };

  // Each multiplies the optimizer's learning rate by a factor of t, the steps since the warm-up.
  enum class SchedulerName {
    constant,     // 1
    linear,       // from 1 to alpha over decay_steps, then alpha
    cosine,       // the same along half a cosine
    step,         // gamma ^ floor(t / step_size)
    exponential,  // decay_rate ^ (t / decay_steps)
  };
  struct Scheduler {
    SchedulerName name = SchedulerName::constant;
    int64_t warmup_steps = 0;  // the factor climbs from 1/warmup_steps to 1 before the schedule
    int64_t decay_steps = 0;   // linear, cosine: 0 means up to the job's last step
    double alpha = 0;          // linear, cosine
    int64_t step_size = 0;     // step
    double gamma = 0.1;        // step
    double decay_rate = 0;     // exponential
    bool operator==(const Scheduler&) const = default;
  };

  enum class Mode { sync, async };
  enum class DroppedSamples { requeue, drop };
  struct ParameterServer {  // the options of strategies that use servers
    Mode mode = Mode::sync;
    int64_t num_ps = 1;  // at most num_workers; server i is on worker i
    // mode sync: a step is closed by the first so many of num_workers replicas. 0: by all.
    int64_t replicas_to_aggregate = 0;
    DroppedSamples dropped_samples = DroppedSamples::requeue;  // of the replicas that were late
    bool operator==(const ParameterServer&) const = default;
  };

  struct Checkpoint {
    // Both 0: only when the run ends or is interrupted.
    int64_t every_steps = 0;
    double every_minutes = 0;
    int64_t keep = 3;  // the newest so many stay
    std::string path;  // empty: in the run's folder
    bool operator==(const Checkpoint&) const = default;
  };

  std::string name;
  Model model;
  Data data;
  Loss loss = Loss::cross_entropy;
  std::vector<Metric> metrics;
  Optimizer optimizer;
  Scheduler lr_scheduler;
  int64_t global_batch_size = 0;  // over all shards; a multiple of shards
  int64_t epochs = 0;             // exactly one of epochs and steps is not 0
  int64_t steps = 0;
  uint64_t seed = 0;
  int64_t shards = 1;                 // logical replicas: the weights depend on it
  std::string strategy = "mirrored";  // a name of all_strategies()
  ParameterServer parameter_server;
  int64_t num_workers = 1;  // at most shards: the weights do not depend on it (but see
                            // asynchronous() and has_quorum())
  int64_t min_workers = 0;  // elastic: it goes on with so many at least; 0: it is not
  // On a cluster: failures that may pass, of the last 1,900 steps, after which it tries again.
  int64_t max_failures = 10;
  Checkpoint checkpoint;
  DType precision = DType::f32;  // f32 or f64: of weights, activations and gradients

  // At a step whose loss is NaN or infinite the job fails, or trains on, or leaves the step out.
  enum class OnNan { fail, ignore, skip };
  OnNan on_nan = OnNan::fail;

  bool uses_servers() const;  // as Strategy
  // Does each worker do steps of its own? Then the weights depend on timing.
  bool asynchronous() const { return uses_servers() && parameter_server.mode == Mode::async; }

  // Does a step go on without the slowest workers? Then the weights depend on timing, too.
  bool has_quorum() const {
    return uses_servers() && parameter_server.replicas_to_aggregate > 0 &&
           parameter_server.replicas_to_aggregate < num_workers;
  }
  // No other run gives the same weights.
  bool depends_on_timing() const { return asynchronous() || has_quorum(); }
  // Rows of the data that a step takes. Some of them are lost if what is late is dropped.
  int64_t rows_per_step() const {
    const bool loses = has_quorum() && parameter_server.dropped_samples == DroppedSamples::drop;
    return loses ? global_batch_size / shards * num_workers : global_batch_size;
  }

  bool operator==(const Job&) const = default;
};

// The properties of the job's strategy; none of them if its name is unknown.
const Strategy& strategy_of(const Job& job);

// What a command line changes in a job file.
struct JobOverrides {
  std::vector<std::string> set;        // "path.to.key=value", in order; the value is YAML
  std::optional<int64_t> num_workers;  // leaves shards as the file says
  std::optional<int64_t> seed;
  std::optional<int64_t> min_workers = {};  // with num_workers, which is the most then
};

// Reads the job from `text`. Relative paths in it become absolute, from the folder of `file_name`,
// which is what messages say: invalid_argument, "file:line:column: key: expected ..., received
// ...". An override of epochs replaces steps, and the other way round.
Result<Job> parse_job(std::string_view text, const std::string& file_name,
                      const JobOverrides& overrides = {});

// Reads the job file, of at most 1 MiB. A file that cannot be read gives the error of read_file(),
// failed_precondition if there is none; else as parse_job().
Result<Job> load_job(const std::string& path, const JobOverrides& overrides = {});

// The job as YAML with every key written out; parse_job() of it gives an equal job.
std::string print_job(const Job& job);

// "mirrored", "parameter_server (sync, 2 servers)": for people. Says when weights depend on timing.
std::string describe_strategy(const Job& job);

// What the names of a job file stand for, for messages and summaries.
std::string_view name_of(Job::Loss loss);
std::string_view name_of(Job::Metric metric);
std::string_view name_of(Job::OptimizerName name);
std::string_view name_of(Job::SchedulerName name);
std::string_view name_of(Job::Mode mode);
std::string_view name_of(Job::DroppedSamples dropped);
std::string_view name_of(Job::OnNan on_nan);
std::string_view name_of(Job::Format format);

}  // namespace leat
