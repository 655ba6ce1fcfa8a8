// Tests the loader of jobs: each field is wrong in turn, and the message must name its place.
#include "daemon/spec/job.h"

#include <fstream>

#include "devices/base/text.h"
#include "ops/data/source_formats.h"
#include "tests/catch.h"
#include "tests/daemon/job_text.h"
#include "tests/temporary_directory.h"

namespace leat {
namespace {

// The names of losses in messages, in the order of their table.
constexpr std::string_view kLossNames =
    "cross_entropy, mse, binary_cross_entropy, focal, hinge, l1, mae, huber, smooth_l1, log_cosh, "
    "poisson, kl_div, cosine, ctc, triplet";
TEST_CASE("every key of a job file is read") {
  const auto read = parse_job(kGoodJob, kJobPath);
  REQUIRE(read.status().message() == "");
  const Job& job = *read;
  CHECK(job.name == "fashion-mnist-cnn");
  CHECK(job.model.graph == "/graphs/cnn.onnxtxt");
  CHECK(job.model.weights.empty());
  CHECK(job.data.root == "/jobs/fashion-mnist");
  CHECK(job.data.train ==
        Job::Files{
            "idx", {"features=train-images.gz", "labels=train-labels.gz"}, 0, 0, DType::u16, {}});
  REQUIRE(job.data.validation.has_value());
  CHECK(*job.data.validation ==
        Job::Files{
            "npy", {"features=t10k-images.npy", "labels=t10k-labels.npy"}, 0, 0, DType::u16, {}});
  CHECK(job.data.rescale == 0.5);
  CHECK(job.data.shuffle);
  CHECK(job.loss == LossSpec());
  CHECK(job.metrics == std::vector{MetricSpec::of("accuracy")});
  CHECK(job.optimizer.name == "sgd");
  CHECK(job.optimizer.learning_rate == 0.05);
  CHECK(job.optimizer.values.number("momentum") == 0.9);
  CHECK(job.lr_scheduler.name == "cosine");
  CHECK(job.lr_scheduler.warmup_steps == 100);
  CHECK(job.global_batch_size == 128);
  CHECK(job.epochs == 5);
  CHECK(job.steps == 0);
  CHECK(job.seed == 11);
  CHECK(job.shards == 4);
  CHECK(job.strategy == "mirrored");
  CHECK(job.num_workers == 2);
  CHECK(job.checkpoint == Job::Checkpoint{500, 0, 3, "", "", {}});
  CHECK(job.precision == DType::f32);
}

TEST_CASE("optional keys have the defaults that the documentation gives") {
  const std::string minimal = R"(version: 1
name: least
model: {graph: /g.onnxtxt}
data: {root: /data, train: {format: npy, features: x.npy, labels: y.npy}}
loss: mse
optimizer: {name: adamw, learning_rate: 1e-3}
global_batch_size: 32
steps: 10
num_workers: 2
)";
  // An override that takes a key away leaves no empty map where there was none.
  JobOverrides none;
  none.set = {"checkpoint.path="};
  CHECK(parse_job(minimal, kJobPath, none).ok());
  const auto read = parse_job(minimal, kJobPath);
  REQUIRE(read.status().message() == "");
  CHECK_FALSE(read->data.validation.has_value());
  CHECK(read->data.rescale == 1);
  CHECK(read->data.shuffle);
  CHECK(read->metrics.empty());
  CHECK(read->optimizer.values.number("weight_decay") == 0.01);
  CHECK(read->optimizer.values.number("beta_1") == 0.9);
  CHECK(read->optimizer.values.number("beta_2") == 0.999);
  CHECK(read->optimizer.values.number("epsilon") == 1e-8);
  CHECK(read->lr_scheduler == ScheduleSpec());
  CHECK(read->epochs == 0);
  CHECK(read->steps == 10);
  CHECK(read->seed == 0);
  CHECK(read->shards == 2);
  CHECK(read->strategy == "mirrored");
  CHECK(read->checkpoint.every_steps == 0);
}

struct Wrong {
  int line;              // the line of kGoodJob
  std::string text;      // its replacement; empty: none
  std::string expected;  // the whole message after "/jobs/job.yaml:"
};

template <typename Entries>
std::string names_in(const Entries& entries) {
  std::vector<std::string_view> names;
  for (const auto& entry : entries) names.push_back(entry.name);
  return join(names, ", ");
}

TEST_CASE("every field wrong in turn gives one error with its place") {
  const std::string optimizers = names_in(all_optimizers()), schedules = names_in(all_schedules());
  std::vector<std::string_view> names;
  for (const SourceFormat* format : source_formats()) names.push_back(format->name());
  const std::string formats = join(names, ", ");
  const std::vector<Wrong> cases = {
      // version
      {1, "", "1:1: version: missing; expected the integer 1"},
      {1, "version: 2", "1:10: version: expected the integer 1, received the integer 2"},
      {1, "version: one", "1:10: version: expected the integer 1, received the string 'one'"},
      {1, "version:", "1:1: version: expected the integer 1, received nothing"},
      {1, "version: ~", "1:1: version: expected the integer 1, received nothing"},
      {1, "version: \"1\"",
       "1:10: version: expected the integer 1, received the string '1' (in quotes)"},
      {1, "vresion: 1", "1:1: vresion: unknown key (did you mean 'version'?)"},
      // name
      {2, "", "1:1: name: missing; expected a string"},
      {2, "name: 5",
       "2:7: name: expected a string, received the integer 5; put it in quotes if it is meant as "
       "text"},
      {2, "name: [a]", "2:7: name: expected a string, received a list"},
      {2, "name: ''", "2:7: name: expected a string, received the string ''"},
      {2, "name: a/b",
       "2:7: name: expected letters, digits, '-', '_' and '.', at most 100 and a letter or digit "
       "first, received 'a/b'"},
      {2, "name: .hidden",
       "2:7: name: expected letters, digits, '-', '_' and '.', at most 100 and a letter or digit "
       "first, received '.hidden'"},
      {2, "name: a\nname: b", "3:1: duplicate key 'name', first written at line 2, column 1"},
      // model
      {3, "", "1:1: model: missing; expected a map"},
      {3, "model: cnn.onnxtxt", "3:8: model: expected a map, received the string 'cnn.onnxtxt'"},
      {3, "model: {}", "3:8: model.graph: missing; expected the path of a graph file"},
      {3, "model: {graph: [a]}",
       "3:16: model.graph: expected the path of a graph file, received a list"},
      {3, "model: {grpah: a}", "3:9: model.grpah: unknown key (did you mean 'graph'?)"},
      {3, "model: {graph: a, graph: b}",
       "3:19: duplicate key 'graph', first written at line 3, column 9"},
      {3, "model: {graph: a, weights: 3}",
       "3:28: model.weights: expected the path of a safetensors, npz or ONNX file, received the "
       "integer 3; put it in quotes if it is meant as text"},
      {3, "model: {graph: a, weights: {strict: false}}",
       "3:28: model.weights.file: missing; expected the path of a safetensors, npz or ONNX file"},
      {3, "model: {graph: a, weights: {file: b, rename: {'a.*': b}}}",
       "3:54: model.weights.rename.a.*: expected a name with as many '*' as 'a.*' has, received "
       "'b'"},
      {3, "model: {graph: a, freeze: layer1}",
       "3:27: model.freeze: expected a list of strings, received the string 'layer1'"},
      {3, "model: {graph: a, freeze: [x, 7]}",
       "3:31: model.freeze[1]: expected a string, received the integer 7; put it in quotes if it "
       "is meant as text"},
      {3, "model: {graph: a, fixed: {k: [1, x]}}",
       "3:30: model.fixed.k: expected a number, true, false, or equally long lists of them, as in "
       "[[1, 2], [3, 4]], received '[1, x]'"},
      {3, "model: {graph: \"a\\nb\"}",
       "3:16: model.graph: expected the path of a graph file, received the string 'a b', which has "
       "control characters"},
      // data
      {5, "", "5:3: data.root: missing; expected the path of a folder"},
      {5, "  root: true",
       "5:9: data.root: expected the path of a folder, received true; put it in quotes if it is "
       "meant as text"},
      {5, "  roof: x", "5:3: data.roof: unknown key (did you mean 'root'?)"},
      {6, "", "5:3: data.train: missing; expected a map"},
      {6, "  train: 3", "6:10: data.train: expected a map, received the integer 3"},
      {6, "  train: {features: a, labels: b}",
       cat("6:10: data.train.format: missing; expected one of ", formats)},
      {6, "  train: {format: ixd, features: a, labels: b}",
       cat("6:19: data.train.format: expected one of ", formats,
           ", received the string 'ixd' (did you mean 'idx'?)")},
      {6, "  train: {format: pictures, features: a, labels: b}",
       cat("6:19: data.train.format: expected one of ", formats,
           ", received the string 'pictures'")},
      {6, "  train: {format: idx, labels: b}",
       "6:10: data.train.features: missing; expected the path of a file below data.root"},
      {6, "  train: {format: idx, features: a}",
       "6:10: data.train.labels: missing; expected the path of a file below data.root"},
      {6, "  train: {format: idx, features: ../a, labels: b}",
       "6:34: data.train.features: expected the path of a file below data.root, received '../a'"},
      {6, "  train: {format: idx, features: a, labels: /etc/passwd}",
       "6:45: data.train.labels: expected the path of a file below data.root, received "
       "'/etc/passwd'"},
      {6, "  train: {format: idx, features: a, labels: b, label: c}",
       "6:48: data.train.label: unknown key (did you mean 'labels'?)"},
      {7, "  validation: [a]", "7:15: data.validation: expected a map, received a list"},
      {7, "  validation: {format: npy, features: 1, labels: b}",
       "7:39: data.validation.features: expected the path of a file below data.root, received the "
       "integer 1; put it in quotes if it is meant as text"},
      {8, "  rescale: 0",
       "8:12: data.rescale: expected a number greater than 0, received the integer 0"},
      {8, "  rescale: .nan",
       "8:12: data.rescale: expected a number greater than 0, received the number .nan"},
      {8, "  rescale: 1/255",
       "8:12: data.rescale: expected a number greater than 0, received the string '1/255'"},
      {8, "  rescale: 1e999",
       "8:12: data.rescale: expected a number greater than 0, received the number 1e999, which no "
       "64-bit float can hold"},
      {8, "  shuffle: no", "8:12: data.shuffle: expected true or false, received the string 'no'"},
      {8, "  shuffle: 1", "8:12: data.shuffle: expected true or false, received the integer 1"},
      // loss and metrics
      {9, "", cat("1:1: loss: missing; expected one of ", kLossNames)},
      {9, "loss: crossentropy",
       cat("9:7: loss: expected one of ", kLossNames,
           ", received the string 'crossentropy' (did you mean 'cross_entropy'?)")},
      {9, "loss: [mse]",
       "9:7: loss: expected a list of at least 2 terms, received 1; a loss by itself is no list"},
      {9, "loss: {name: l3}",
       cat("9:14: loss.name: expected one of ", kLossNames,
           ", received the string 'l3' (did you mean 'l1'?)")},
      {9, "loss: {name: huber, delta: 0}",
       "9:28: loss.delta: expected a number greater than 0, received the integer 0"},
      {9, "loss: {name: cross_entropy, class_weights: [1, -1]}",
       "9:48: loss.class_weights[1]: expected a number greater than 0, received the integer -1"},
      {9, "loss: {name: mse, class_weights: [1]}", "9:34: loss.class_weights: is not a key of mse"},
      {9, "loss: {name: cross_entropy, soft_labels: true, ignore_index: 1}",
       "9:62: loss.ignore_index: is not a key of cross_entropy with soft_labels"},
      {9, "loss: {name: mse, ignore_index: 1}", "9:33: loss.ignore_index: is not a key of mse"},
      {9, "loss: {name: mse, from_logits: false}", "9:32: loss.from_logits: is not a key of mse"},
      {9, "loss: {output: total, weight: 2}",
       "9:23: loss.weight: unknown key; the keys here are output"},
      {9, "loss: mse",
       "10:10: metrics: accuracy: expected a loss of classes or of binary labels, received mse, "
       "which has numbers as labels"},
      {10, "metrics: [{name: top_k, kk: 2}]",
       "10:25: metrics[0].kk: unknown key (did you mean 'k'?)"},
      {10, "metrics: [{name: f1, k: 2}]", "10:25: metrics[0].k: is not a key of f1"},
      {10, "metrics: [rmse]",
       "10:10: metrics: rmse: expected a loss of numbers as labels, received cross_entropy, which "
       "has classes"},
      {10, "metrics: [accuracy]\nearly_stopping: {monitor: val_f1}",
       "11:27: early_stopping.monitor: expected one of loss, accuracy, val_loss, val_accuracy, "
       "received the string 'val_f1'"},
      {10, "early_stopping: {monitor: val_loss, patience: 0}",
       "10:47: early_stopping.patience: expected an integer from 1 to 1000000, received the "
       "integer "
       "0"},
      {10, "metrics: accuracy",
       cat("10:10: metrics: expected a list of ", kMetricNames,
           ", or of maps with such a name, received the string 'accuracy'")},
      {10, "metrics: [acuracy]",
       cat("10:11: metrics[0]: expected one of ", kMetricNames,
           ", received the string 'acuracy' (did you mean 'accuracy'?)")},
      {10, "metrics: [accuracy, accuracy]",
       "10:10: metrics: expected each metric once, received accuracy again"},
      // optimizer
      {11, "", "1:1: optimizer: missing; expected a map"},
      {11, "optimizer: sgd", "11:12: optimizer: expected a map, received the string 'sgd'"},
      {11, "optimizer: {learning_rate: 0.1}",
       cat("11:12: optimizer.name: missing; expected one of ", optimizers)},
      {11, "optimizer: {name: adamm, learning_rate: 0.1}",
       cat("11:19: optimizer.name: expected one of ", optimizers,
           ", received the string 'adamm' (did you mean 'adam'?)")},
      {11, "optimizer: {name: sgd}",
       "11:12: optimizer.learning_rate: missing; expected a number greater than 0"},
      {11, "optimizer: {name: sgd, learning_rate: fast}",
       "11:39: optimizer.learning_rate: expected a number greater than 0, received the string "
       "'fast'"},
      {11, "optimizer: {name: sgd, learning_rate: -0.1}",
       "11:39: optimizer.learning_rate: expected a number greater than 0, received the number "
       "-0.1"},
      {11, "optimizer: {name: sgd, learning_rate: .inf}",
       "11:39: optimizer.learning_rate: expected a number greater than 0, received the number "
       ".inf"},
      {11, "optimizer: {name: sgd, learning_rat: 0.1}",
       "11:24: optimizer.learning_rat: unknown key (did you mean 'learning_rate'?)"},
      {11, "optimizer: {name: sgd, learning_rate: 0.1, momentum: 1}",
       "11:54: optimizer.momentum: expected a number of at least 0 and less than 1, received the "
       "integer 1"},
      {11, "optimizer: {name: sgd, learning_rate: 0.1, nesterov: true}",
       "11:54: optimizer.nesterov: expected a momentum greater than 0 beside it, received none"},
      {11, "optimizer: {name: sgd, learning_rate: 0.1, weight_decay: -1}",
       "11:58: optimizer.weight_decay: expected a number of at least 0, received the integer -1"},
      {11, "optimizer: {name: sgd, learning_rate: 0.1, beta_1: 0.9}",
       "11:52: optimizer.beta_1: is not a key of sgd"},
      {11, "optimizer: {name: adam, learning_rate: 0.1, momentum: 0.9}",
       "11:55: optimizer.momentum: is not a key of adam"},
      {11, "optimizer: {name: adam, learning_rate: 0.1, beta_1: 1.5}",
       "11:53: optimizer.beta_1: expected a number of at least 0 and less than 1, received the "
       "number 1.5"},
      {11, "optimizer: {name: adam, learning_rate: 0.1, beta_2: x}",
       "11:53: optimizer.beta_2: expected a number of at least 0 and less than 1, received the "
       "string 'x'"},
      {11, "optimizer: {name: adam, learning_rate: 0.1, epsilon: 0}",
       "11:54: optimizer.epsilon: expected a number greater than 0, received the integer 0"},
      // lr_scheduler
      {12, "lr_scheduler: cosine",
       "12:15: lr_scheduler: expected a map, received the string 'cosine'"},
      {12, "lr_scheduler: {warmup_steps: 1}",
       cat("12:15: lr_scheduler.name: missing; expected one of ", schedules)},
      {12, "lr_scheduler: {name: cosin}",
       cat("12:22: lr_scheduler.name: expected one of ", schedules,
           ", received the string 'cosin' (did you mean 'cosine'?)")},
      {12, "lr_scheduler: {name: cosine, warmup_steps: -1}",
       "12:44: lr_scheduler.warmup_steps: expected an integer from 0 to 1099511627776, received "
       "the integer -1"},
      {12, "lr_scheduler: {name: cosine, warmup_steps: 1.5}",
       "12:44: lr_scheduler.warmup_steps: expected an integer from 0 to 1099511627776, received "
       "the number 1.5"},
      {12, "lr_scheduler: {name: cosine, alpha: 2}",
       "12:37: lr_scheduler.alpha: expected a number of at least 0 and of at most 1, received the "
       "integer 2"},
      {12, "lr_scheduler: {name: constant, alpha: 0}",
       "12:39: lr_scheduler.alpha: is not a key of constant"},
      {12, "lr_scheduler: {name: cosine, decay_steps: 0}",
       "12:43: lr_scheduler.decay_steps: expected an integer from 1 to 1099511627776, received "
       "the integer 0"},
      {12, "lr_scheduler: {name: step}",
       "12:15: lr_scheduler.step_size: missing; expected an integer from 1 to 1099511627776"},
      {12, "lr_scheduler: {name: step, step_size: 3, gamma: 0}",
       "12:49: lr_scheduler.gamma: expected a number greater than 0 and of at most 1, received "
       "the integer 0"},
      {12, "lr_scheduler: {name: exponential, decay_steps: 10}",
       "12:15: lr_scheduler.decay_rate: missing; expected a number greater than 0 and of at most "
       "1"},
      // the scalars of the top level
      {13, "", "1:1: global_batch_size: missing; expected an integer from 1 to 16777216"},
      {13, "global_batch_size: 0",
       "13:20: global_batch_size: expected an integer from 1 to 16777216, received the integer 0"},
      {13, "global_batch_size: 99999999999999999999",
       "13:20: global_batch_size: expected an integer from 1 to 16777216, received the integer "
       "99999999999999999999, which does not fit in 64 bits"},
      {13, "global_batch_size: 1_024",
       "13:20: global_batch_size: expected an integer from 1 to 16777216, received the string "
       "'1_024'"},
      {13, "global_batch_size: 130",
       "13:20: global_batch_size: expected a multiple of 4, the shards of the job, received 130; "
       "128 and 132 fit"},
      {13, "global_batch_size: 3",
       "13:20: global_batch_size: expected a multiple of 4, the shards of the job, received 3; 4 "
       "fits"},
      {14, "", "1:1: epochs: missing; expected an integer from 1 to 1000000"},
      {14, "epochs: 5.0",
       "14:9: epochs: expected an integer from 1 to 1000000, received the number 5.0"},
      {14, "epochs: 012",
       "14:9: epochs: expected an integer from 1 to 1000000, received 012, which is octal to some "
       "readers (write it without the leading zero)"},
      {14, "epoch: 5", "14:1: epoch: unknown key (did you mean 'epochs'?)"},
      {14, "steps: 0",
       "14:8: steps: expected an integer from 1 to 1099511627776, received the integer 0"},
      {14, "epochs: 5\nsteps: 3",
       "15:8: steps: expected epochs or steps, received both (epochs at /jobs/job.yaml:14:9)"},
      {15, "seed: -1", "15:7: seed: expected an integer of at least 0, received the integer -1"},
      {15, "seed: 0x1p3",
       "15:7: seed: expected an integer of at least 0, received the string '0x1p3'"},
      {16, "shards: 0", "16:9: shards: expected an integer from 1 to 4096, received the integer 0"},
      {16, "shards: [2, 4]", "16:9: shards: expected an integer from 1 to 4096, received a list"},
      {16, "shards: 1",
       "18:14: num_workers: expected at most 1, the shards of the job, received 2; change "
       "num_workers, or shards at /jobs/job.yaml:16:9 (which changes the weights)"},
      {17, "strategy: mirorred",
       "17:11: strategy: expected one of single, mirrored, parameter_server, central_storage, "
       "received the string "
       "'mirorred' (did you mean 'mirrored'?)"},
      {17, "strategy: {nam: single}", "17:12: strategy.nam: unknown key (did you mean 'name'?)"},
      {17, "strategy: {name: mirrored, num_ps: 2}",
       "17:36: strategy.num_ps: is not a key of mirrored"},
      {17, "strategy: {name: parameter_server, num_ps: 0}",
       "17:44: strategy.num_ps: expected an integer from 1 to 4096, received the integer 0"},
      {17, "strategy: {name: parameter_server, num_ps: 3}",
       "17:11: strategy: num_ps: expected at most 2, the workers that servers are on, received 3; "
       "change num_ps, or num_workers"},
      {17, "strategy: {name: parameter_server, mode: asink}",
       "17:42: strategy.mode: expected one of sync, async, received the string 'asink'"},
      {17, "strategy: {name: parameter_server, total_num_replicas: 3}",
       "17:11: strategy.replicas_to_aggregate: missing; expected an integer from 1 to 4096"},
      {17, "strategy: {name: parameter_server, mode: async, replicas_to_aggregate: 1}",
       "17:72: strategy.replicas_to_aggregate: is not a key of mode async"},
      {17, "strategy: {name: parameter_server, total_num_replicas: 3, replicas_to_aggregate: 2}",
       "17:11: strategy: total_num_replicas: expected 2, the workers of the job, received 3; a "
       "replica is a worker"},
      {17, "strategy: {name: parameter_server, replicas_to_aggregate: 3}",
       "17:11: strategy: replicas_to_aggregate: expected at most 2, the workers of the job, "
       "received 3"},
      {17, "strategy: {name: parameter_server, replicas_to_aggregate: 1}",
       "16:9: shards: expected 1, as replicas_to_aggregate says, received 4"},
      {18, "num_workers: 5",
       "18:14: num_workers: expected at most 4, the shards of the job, received 5; change "
       "num_workers, or shards at /jobs/job.yaml:16:9 (which changes the weights)"},
      {18, "num_workers: [2, 5]",
       "18:14: num_workers: expected at most 4, the shards of the job, received 5; change "
       "num_workers, or shards at /jobs/job.yaml:16:9 (which changes the weights)"},
      {18, "num_workers: [4, 2]",
       "18:14: num_workers: expected an integer from 1 to 4096, or [LEAST, MOST] of such, received "
       "[4, 2]"},
      {18, "num_workers: [0, two]",
       "18:14: num_workers: expected an integer from 1 to 4096, or [LEAST, MOST] of such, received "
       "[0, two]"},
      {18, "num_workers: [2]",
       "18:14: num_workers: expected an integer from 1 to 4096, or [LEAST, MOST] of such, received "
       "[2]"},
      {19, "max_failures: 1001",
       "19:15: max_failures: expected an integer from 0 to 1000, received the integer 1001"},
      {19, "evaluates: job-1234",
       "19:12: evaluates: expected num_workers: 1, without a GPU, beside it, received 2"},
      {19, "evaluates: [job-1234]", "19:12: evaluates: expected the id of a job, received a list"},
      {19, "resources_per_worker: {gpu: 2}",
       "19:29: resources_per_worker.gpu: expected an integer from 0 to 1, received the integer 2"},
      {19, "resources_per_worker: {gpus: 1}",
       "19:24: resources_per_worker.gpus: unknown key (did you mean 'gpu'?)"},
      {19, "resources_per_worker: {cpu: 0}",
       "19:29: resources_per_worker.cpu: expected an integer from 1 to 4096, received the integer "
       "0"},
      {19, "resources_per_worker: {memory: 1GiB}",
       "19:32: resources_per_worker.memory: expected it together with cpu: a job without cpu has "
       "the whole worker"},
      {19, "resources_per_worker: {cpu: 1, memory: 12}",
       "19:40: resources_per_worker.memory: expected a size such as 512MiB or 4GiB, at least 1MiB, "
       "received '12'"},
      {19, "resources_per_worker: {cpu: 1, gpu: 1}",
       "19:29: resources_per_worker.cpu: expected it without gpu: a job with a GPU has the whole "
       "worker"},
      {19, "priority: 101",
       "19:11: priority: expected an integer from -100 to 100, received the integer 101"},
      {19, "max_run_time: 2w",
       "19:15: max_run_time: expected a time such as 90s, 10m or 2h, at least 1s, received '2w'"},
      {19, "max_run_time: 500ms",
       "19:15: max_run_time: expected a time such as 90s, 10m or 2h, at least 1s, received "
       "'500ms'"},
      // checkpoint and precision
      {19, "checkpoint:", "19:1: checkpoint: expected a map, received nothing"},
      {19, "checkpoint: {keep: 3}",
       "19:13: checkpoint.every_steps: missing; expected an integer from 1 to 1099511627776"},
      {19, "checkpoint: {every_steps: 0}",
       "19:27: checkpoint.every_steps: expected an integer from 1 to 1099511627776, received the "
       "integer 0"},
      {19, "checkpoint: {every_steps: 5, keep: 0}",
       "19:36: checkpoint.keep: expected an integer from 1 to 10000, received the integer 0"},
      {19, "checkpoint: {every_steps: 5, path: 3}",
       "19:36: checkpoint.path: expected the path of a folder, received the integer 3; put it in "
       "quotes if it is meant as text"},
      {19, "checkpoint: {every_steps: 5, copy_to: 'http://host/x'}",
       "19:39: checkpoint.copy_to: the address of a store that takes files: expected "
       "s3://BUCKET/PREFIX, received 'http://host/x'"},
      {19, "checkpoint: {every_steps: 5, path: a, copy_to: b}",
       "19:48: checkpoint.copy_to: expected none beside path: the copy is one of the run's own "
       "folder"},
      {19, "checkpoint: {every_minutes: 0}",
       "19:29: checkpoint.every_minutes: expected a number greater than 0, received the integer 0"},
      {19, "checkpoint: {every_hours: 5}",
       "19:14: checkpoint.every_hours: unknown key; the keys here are every_steps, every_minutes, "
       "keep, path, copy_to, best"},
      {19, "matmul_precision: bf16",
       "19:19: matmul_precision: expected one of float32, tf32, received the string 'bf16'"},
      {19, "precision: bf17",
       "19:12: precision: expected one of float32, float64, bfloat16, float16, bf16, fp16, "
       "received "
       "the string 'bf17' (did you mean 'bf16'?)"},
      {19, "precision: {float32: [Softmax]}",
       "19:12: precision.compute: missing; expected one of float32, float64, bfloat16, float16, "
       "bf16, fp16"},
      {19, "precision: {compute: float64, float32: [Softmax]}",
       "19:40: precision.float32: is not a key beside compute: float64"},
      {19, "precision: {compute: bf16, float16: [Softmax]}",
       "19:37: precision.float16: is not a key beside compute: bfloat16"},
      {19, "precision: {compute: bfloat16, loss_scale: 8}",
       "19:44: precision.loss_scale: is not a key beside compute: bfloat16, whose range is that of "
       "float32"},
      {19, "precision: {compute: fp16, loss_scale: none}",
       "19:40: precision.loss_scale: expected a number of at least 1e-06 and of at most 16777216, "
       "received the string 'none'"},
      {19, "precision: {compute: fp16, loss_scale: 1e-45}",
       "19:40: precision.loss_scale: expected a number of at least 1e-06 and of at most 16777216, "
       "received the number 1e-45"},
      {19, "precision: {compute: fp16, loss_scale: {initial: 0}}",
       "19:50: precision.loss_scale.initial: expected a number of at least 1e-06 and of at most "
       "16777216, received the integer 0"},
      {17, "strategy: {name: parameter_server, mode: async}\nprecision: float16",
       "18:12: precision: expected loss_scale: NUMBER with a strategy whose workers do not do each "
       "step together, so that they could not all skip it, received a dynamic one"},
      {19, "on_nan: stop",
       "19:9: on_nan: expected one of fail, ignore, skip, received the string 'stop'"},
      {17, "strategy: {name: parameter_server, mode: async}\non_nan: skip",
       "18:9: on_nan: expected fail or ignore with a strategy whose workers do not do each step "
       "together, so that they could not all skip it, received skip"},
      {19, "audit: 1.5",
       "19:8: audit: expected a number of at least 0 and of at most 1, received the number 1.5"},
      {17, "strategy: parameter_server\naudit: 0.1",
       "18:8: audit: expected strategy: mirrored, with which each worker can compute what another "
       "one does, received strategy parameter_server"},
      {18, "num_workers: 1\naudit: 0.1",
       "19:8: audit: expected num_workers of 2 or more, of which one computes what another one "
       "did, "
       "received 1"},
      {19, "on_nan: skip\naudit: 0.1",
       "20:8: audit: expected on_nan: fail or ignore in a job that is audited, received skip"},
      {19, "precision: 32",
       "19:12: precision: expected one of float32, float64, bfloat16, float16, bf16, fp16, "
       "received "
       "the integer 32"},
  };
  for (const Wrong& wrong : cases) {
    INFO(wrong.text);
    CHECK(job_error(job_with_line(wrong.line, wrong.text)) == kJobPath + ":" + wrong.expected);
  }
}

TEST_CASE("unsupported YAML is refused with its place") {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "1:1: expected a map of keys, received nothing"},
      {"# nothing\n", "1:1: expected a map of keys, received nothing"},
      {"- a\n", "1:1: expected a map of keys, received a list"},
      {"a: 1\n---\nb: 2\n", "2:1: expected one document, received a second one"},
      {"a: &x 1\n", "1:4: anchors (&name) are not supported"},
      {"a: &x 1\nb: *x\n", "1:4: anchors (&name) are not supported"},
      {"<<: {a: 1}\n", "1:1: merge keys (<<) are not supported"},
      {"a: !!int 5\n", "1:4: tags are not supported, received 'tag:yaml.org,2002:int'"},
      {"[a]: 5\n", "1:1: expected a key, received a list"},
      {"a: {b: 1, b: 2}\n", "1:11: duplicate key 'b', first written at line 1, column 5"},
      {"a: 1\nb: \"\xff\"\n", "2:5: expected UTF-8 text, received a byte that is none"},
      {std::string("a: \x04 1\n"), "1:4: expected UTF-8 text, received a byte that is none"},
  };
  for (const auto& [text, expected] : cases) {
    INFO(text);
    CHECK(job_error(text) == kJobPath + ":" + expected);
  }
  CHECK_THAT(job_error("a: {b: 1\n"), Catch::StartsWith(kJobPath + ":2:1: not valid YAML: "));
  CHECK_THAT(job_error("a: b: c\n"), Catch::StartsWith(kJobPath + ":1:5: not valid YAML: "));
  CHECK_THAT(job_error("a: " + std::string(100000, '[')), Catch::Contains("nested more than 32"));
  CHECK_THAT(job_error(std::string((1 << 20) + 1, '#')),
             Catch::Contains("expected at most 1048576 bytes, received 1048577"));
}

TEST_CASE("a string that only YAML 1.1 takes for a boolean is a string") {
  const auto job = parse_job(job_with_line(2, "name: no"), kJobPath);
  REQUIRE(job.ok());
  CHECK(job->name == "no");
}

TEST_CASE("a printed job parses back equal") {
  const std::vector<std::vector<std::string>> variants = {
      {},
      {"steps=3", "seed=9223372036854775807"},
      {"optimizer={name: adamw, learning_rate: 3e-4, weight_decay: 0, epsilon: 1e-7}"},
      {"optimizer.nesterov=true"},
      {"optimizer.lazy=true"},
      {"lr_scheduler={name: step, step_size: 30, gamma: 0.5}"},
      {"lr_scheduler={name: exponential, decay_steps: 30, decay_rate: 0.96, warmup_steps: 4}"},
      {"lr_scheduler={name: linear, decay_steps: 30, alpha: 0.1}"},
      {"checkpoint=null", "data.validation=null", "metrics=[]", "precision=float64",
       "on_nan=ignore"},
      {"on_nan=skip"},
      {"audit=0.01"},
      {"audit=1"},
      {"precision=bfloat16"},
      {"precision=float16"},
      {"precision={compute: bf16, float32: [Softmax, 'layer3.*'], bfloat16: [Exp]}"},
      {"precision={compute: fp16, float16: [Exp], loss_scale: 1024}"},
      {"precision={compute: float16, loss_scale: {initial: 8, growth_interval: 3}}"},
      {"export=[onnx, npz]"},
      {"model.weights={file: w.npz, rename: {'a.*': 'm.*', b: c}, strict: false}"},
      {"model.weights={file: w.onnx, strict: false}", "model.train=['*.bias']"},
      {"name='123'", "model.graph='a b: \"c\" \\ # {d}'", "model.weights=' ü '"},
      {"model.fixed={k: 3, 'long name': [1, 2.5], c: true, m: '[[1, 2], [3, 4]]'}"},
      {"model.freeze=['layer1.*', '*.bias', '- x', '~', 'no', 'null', '012']"},
      {"strategy={name: single}", "num_workers=1", "loss=mse", "metrics=[]"},
      {"strategy=single", "num_workers=3", "shards=2"},
      {"num_workers=[2, 3]"},
      {"num_workers=[2, 2]"},
      {"strategy=parameter_server"},
      {"loss={name: cross_entropy, from_logits: false}"},
      {"loss={name: cross_entropy, ignore_index: 2, from_logits: false}"},
      {"loss={name: cross_entropy, class_weights: [0.5, 2], label_smoothing: 0.1}"},
      {"loss={name: cross_entropy, soft_labels: true}"},
      {"loss={name: huber, delta: 0.25}", "metrics=[mae, rmse, r2]"},
      {"loss={name: poisson, log_input: false}", "metrics=[]"},
      {"metrics=[accuracy, {name: top_k, k: 3}, {name: f1, average: micro}, f1, confusion_matrix]"},
      {"early_stopping={monitor: val_loss}"},
      {"early_stopping={monitor: val_accuracy, mode: min, patience: 4, min_delta: 0.5}",
       "checkpoint={best: {monitor: loss}}"},
      {"checkpoint={every_steps: 3, best: {monitor: val_accuracy}}"},
      {"strategy={name: parameter_server, mode: sync, num_ps: 2}"},
      {"strategy={name: parameter_server, mode: async}", "num_workers=3", "shards=1"},
      {"strategy={name: parameter_server, total_num_replicas: 10, replicas_to_aggregate: 8}",
       "num_workers=10", "shards=8"},
      {"strategy={name: parameter_server, replicas_to_aggregate: 1, dropped_samples: drop}",
       "num_workers=2", "shards=1"},
  };
  for (const auto& set : variants) {
    const auto job = parse_job(kGoodJob, kJobPath, {.set = set, .num_workers = {}, .seed = {}});
    REQUIRE(job.status().message() == "");
    const std::string printed = print_job(*job);
    INFO(printed);
    const auto again = parse_job(printed, "/elsewhere/job.yaml");
    REQUIRE(again.status().message() == "");
    CHECK(*again == *job);
    CHECK(print_job(*again) == printed);
  }
}

TEST_CASE("a precision has a short and a long name, and float16 scales its loss") {
  const auto with = [](const std::string& precision) {
    const auto job = parse_job(kGoodJob, kJobPath,
                               {.set = {"precision=" + precision}, .num_workers = {}, .seed = {}});
    REQUIRE(job.status().message() == "");
    return *job;
  };
  using Kind = Job::LossScale::Kind;
  CHECK(with("bf16") == with("bfloat16"));
  CHECK(with("fp16") == with("float16"));
  CHECK(with("bf16") == with("{compute: bfloat16}"));
  CHECK(with("bf16").precision == DType::bf16);
  CHECK(with("bf16").master_dtype() == DType::f32);
  CHECK(with("float64").master_dtype() == DType::f64);
  CHECK(with("bf16").mixed.loss_scale.kind == Kind::none);
  CHECK(with("fp16").mixed.loss_scale == Job::LossScale{Kind::dynamic, 65536, 2000});
  CHECK(with("fp16") == with("{compute: fp16, loss_scale: dynamic}"));
  CHECK(with("{compute: fp16, loss_scale: 0.5}").mixed.loss_scale ==
        Job::LossScale{Kind::fixed, 0.5, 2000});
  CHECK(with("{compute: fp16, loss_scale: {initial: 8}}").mixed.loss_scale ==
        Job::LossScale{Kind::dynamic, 8, 2000});
  CHECK(with("{compute: bf16, float32: [A], bfloat16: ['b.*']}").mixed ==
        Job::MixedPrecision{{"A"}, {"b.*"}, {}});
  CHECK_THAT(print_job(with("bf16")), Catch::Contains("\nprecision: {compute: bfloat16}\n"));
}

TEST_CASE("TF32 is a part of what weights depend on if a GPU may use it") {
  const auto with = [](std::vector<std::string> set) {
    const auto job =
        parse_job(kGoodJob, kJobPath, {.set = std::move(set), .num_workers = {}, .seed = {}});
    REQUIRE(job.status().message() == "");
    return *job;
  };
  const std::string tf32 = "matmul_precision=tf32", gpu = "resources_per_worker={gpu: 1}";
  CHECK(with({"matmul_precision=float32"}) == with({}));
  CHECK_FALSE(with({}).tf32);
  const Job job = with({tf32, gpu});
  CHECK(job.tf32);
  CHECK(*parse_job(print_job(job), kJobPath) == job);
  CHECK(precision_of_weights(job) == "float32+tf32");
  CHECK(precision_of_weights(with({tf32, gpu, "precision=bf16"})) == "bfloat16+tf32");
  CHECK(precision_of_weights(with({tf32, gpu, "precision=float64"})) == "float64");
  CHECK(precision_of_weights(with({tf32})) == "float32");
  CHECK(precision_of_weights(with({gpu})) == "float32");
}

TEST_CASE("a job file says on how many GPUs each worker computes") {
  CHECK(parse_job(kGoodJob, kJobPath)->gpus_per_worker == 0);
  JobOverrides overrides;
  overrides.set = {"resources_per_worker.gpu=1"};
  const auto job = parse_job(kGoodJob, kJobPath, overrides);
  REQUIRE(job.ok());
  CHECK(job->gpus_per_worker == 1);
  CHECK(*parse_job(print_job(*job), kJobPath) == *job);
  // The wishes that the queue of a cluster heeds.
  overrides.set = {"priority=-7", "max_run_time=90m", "preemptible=true",
                   "resources_per_worker={cpu: 2, memory: 4GiB}"};
  const auto queued = parse_job(kGoodJob, kJobPath, overrides);
  REQUIRE(queued.status().message() == "");
  CHECK(queued->queue.priority == -7);
  CHECK(queued->queue.max_run_time == std::chrono::minutes(90));
  CHECK(queued->queue.preemptible);
  CHECK(queued->queue.cpu == 2);
  CHECK(queued->queue.memory == uint64_t{4} << 30);
  CHECK(*parse_job(print_job(*queued), kJobPath) == *queued);
}

TEST_CASE("a job evaluates another one with validation data and no program alone") {
  JobOverrides overrides;
  overrides.set = {"evaluates=job-1234", "num_workers=1"};
  const auto job = parse_job(kGoodJob, kJobPath, overrides);
  REQUIRE(job.status().message() == "");
  CHECK(job->evaluates == "job-1234");
  CHECK(*parse_job(print_job(*job), kJobPath) == *job);
  overrides.set.emplace_back("data.validation=null");
  CHECK_THAT(parse_job(kGoodJob, kJobPath, overrides).status().message(),
             Catch::Contains("evaluates: expected data.validation beside it, received none"));
}

TEST_CASE("a printed job names every key") {
  const auto job = parse_job(kGoodJob, kJobPath);
  REQUIRE(job.ok());
  CHECK(print_job(*job) == R"(version: 1
name: fashion-mnist-cnn
model: {graph: /graphs/cnn.onnxtxt}
data:
  root: /jobs/fashion-mnist
  train: {format: idx, features: train-images.gz, labels: train-labels.gz}
  validation: {format: npy, features: t10k-images.npy, labels: t10k-labels.npy}
  rescale: 0.5
  shuffle: true
loss: cross_entropy
metrics: [accuracy]
optimizer: {name: sgd, learning_rate: 0.05, momentum: 0.9, nesterov: false, weight_decay: 0, lazy: false}
lr_scheduler: {name: cosine, warmup_steps: 100, alpha: 0}
global_batch_size: 128
epochs: 5
seed: 11
shards: 4
strategy: mirrored
num_workers: 2
max_failures: 10
checkpoint: {every_steps: 500, keep: 3}
precision: float32
on_nan: fail
)");
}

TEST_CASE("a job file is read from disk, and a missing one is said") {
  const TemporaryDirectory folder;
  const std::string path = folder / "job.yaml";
  std::ofstream(path) << kGoodJob;
  const auto job = load_job(path);
  REQUIRE(job.status().message() == "");
  CHECK(job->data.root == folder / "fashion-mnist");

  const auto missing = load_job(folder / "none.yaml");
  CHECK(missing.status().code() == Code::failed_precondition);
  CHECK_THAT(missing.status().message(), Catch::Contains("none.yaml"));
  CHECK_FALSE(load_job(folder.path()).ok());
}

}  // namespace
}  // namespace leat
