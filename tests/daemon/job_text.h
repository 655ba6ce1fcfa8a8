// A job file that is right, and changes of it, for tests of the loader of jobs.
#pragma once

#include <string>
#include <string_view>

#include "daemon/spec/job.h"
#include "tests/catch.h"

namespace leat {

// The names of metrics in messages, in the order of their table.
inline constexpr std::string_view kMetricNames =
    "accuracy, top_k, precision, recall, f1, iou, matthews, confusion_matrix, auc, perplexity, "
    "bits_per_token, bits_per_byte, edit_distance, exact_match, cer, wer, mae, mse, rmse, r2";

inline const std::string kJobPath = "/jobs/job.yaml";

inline const std::string kGoodJob = R"(version: 1
name: fashion-mnist-cnn
model: {graph: ../graphs/cnn.onnxtxt}
data:
  root: fashion-mnist
  train:      {format: idx, features: train-images.gz, labels: train-labels.gz}
  validation: {format: npy, features: t10k-images.npy, labels: t10k-labels.npy}
  rescale: 0.5
loss: cross_entropy
metrics: [accuracy]
optimizer: {name: sgd, learning_rate: 0.05, momentum: 0.9}
lr_scheduler: {name: cosine, warmup_steps: 100}
global_batch_size: 128
epochs: 5
seed: 11
shards: 4
strategy: mirrored
num_workers: 2
checkpoint: {every_steps: 500, keep: 3}
)";

// Returns the good job with its `line`th line (from 1) replaced, or removed if `text` is empty.
inline std::string job_with_line(int line, const std::string& text) {
  std::string result;
  size_t begin = 0;
  for (int i = 1; begin < kGoodJob.size(); ++i) {
    const size_t end = kGoodJob.find('\n', begin) + 1;
    if (i != line) result += kGoodJob.substr(begin, end - begin);
    if (i == line && !text.empty()) result += text + "\n";
    begin = end;
  }
  return result;
}

// Returns the message of the error, or "(no error)".
inline std::string job_error(const std::string& text, const JobOverrides& overrides = {}) {
  const auto job = parse_job(text, kJobPath, overrides);
  if (job.ok()) return "(no error)";
  CHECK(job.status().code() == Code::invalid_argument);
  return job.status().message();
}

inline std::string job_error_with(const std::string& assignment) {
  return job_error(kGoodJob, {.set = {assignment}, .num_workers = {}, .seed = {}});
}

}  // namespace leat
