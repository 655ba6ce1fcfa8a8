#include "daemon/training/job_transforms.h"

#include <algorithm>

#include "daemon/training/train_specs.h"
#include "scheduler/graph/data_binding.h"
#include "scheduler/graph/read_batch.h"

namespace leat {
namespace {

// A column of labels that none of the model's inputs reads: a prediction has none. If the job names
// no columns of inputs, the only input of a model may read the column that a loss compares with its
// output, as in an autoencoder.
bool is_of_labels(const Job& job, const std::string& column,
                  const std::map<std::string, std::string>& inputs) {
  if (column == kLabelsColumn) return true;
  for (const auto& [name, read] : job.model.inputs) {
    if (read == column) return false;
  }
  if (column.empty() || inputs.contains(column)) return false;
  if (inputs.size() < 2 && job.model.inputs.empty()) return false;
  const auto losses = job.losses();
  return std::any_of(losses.begin(), losses.end(),
                     [&](const LossSpec* loss) { return loss->column == column; });
}

}  // namespace

Result<std::vector<ColumnInfo>> columns_behind_transforms(const Job& job, const Graph& model,
                                                          const std::vector<ColumnInfo>& columns,
                                                          bool in_training) {
  TrainSpec spec;
  spec.input.rescale = job.data.rescale;
  spec.loss = loss_spec(job);
  spec.global_batch = job.global_batch_size;
  spec.shards = job.shards;
  spec.precision = job.master_dtype();
  return transformed_columns(model.catalogue(), columns, job.data.transforms,
                             transform_setting(model, spec), in_training);
}

std::vector<Transform> transforms_of_columns(const Job& job,
                                             const std::map<std::string, std::string>& columns) {
  std::vector<Transform> out;
  for (Transform transform : job.data.transforms) {
    if (is_of_labels(job, transform.column, columns)) continue;
    if (transform.column.empty()) {  // the first column, or the labels if there are any
      out.push_back(std::move(transform));
      continue;
    }
    // The input that reads the column in a training: the one that says so, or that of its name.
    std::string input = transform.column;
    for (const auto& [name, column] : job.model.inputs) {
      if (column == transform.column) input = name;
    }
    if (const auto found = columns.find(input); found != columns.end())
      transform.column = found->second;
    else if (columns.size() < 2)  // the model has one input
      transform.column = columns.empty() ? "" : columns.begin()->second;
    out.push_back(std::move(transform));
  }
  return out;
}

}  // namespace leat
