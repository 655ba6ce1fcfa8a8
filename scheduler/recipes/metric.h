// The metrics that a job file can name. An entry of the table has a name, settings, the labels that
// it fits, the nodes that a batch adds for it, and a pure function from added-up sums to its value.
//
// A metric is exact over shards and batches of any sizes: each batch gives sums, such as counts for
// each class, and only sums are added: over the shards by the graph, over the steps by the host in
// f64. Values that depend on all rows, such as a ratio or an area, are computed once at the end.
//
// Threads: values; the table is constant.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "devices/base/status.h"
#include "scheduler/recipes/loss.h"
#include "scheduler/recipes/setting.h"

namespace leat {

class MetricNodes;

// A metric of a job, for the function that finishes it.
struct MetricContext {
  const SettingValues& settings;
  Labels labels = Labels::classes;  // of the loss
  size_t width = 1;                 // of a metric that gathers: the numbers of a row
};

struct MetricRecipe {
  std::string_view name;
  std::span<const Setting> settings;
  std::span<const Labels> fits;  // the labels of losses beside which it may be
  // Adds the sums of a shard's batch, a list of f64; of a metric that gathers a table [M,W] of f64.
  // Null: the loss has it (accuracy).
  uint32_t (*sums)(MetricNodes& nodes) = nullptr;
  // The value, or the elements of a matrix, from the sums of all batches.
  std::vector<double> (*finish)(std::span<const double> sums,
                                const MetricContext& context) = nullptr;
  bool rises = true;       // a greater value is better
  bool is_matrix = false;  // it is a table for a file, and no number for a log
  // Two sums, of which the value is the first by the second. Each training step has it, too.
  bool in_training = false;
};

// Classes are those of the output's axis. A binary label has two, of which 1 counts.
//
//   accuracy          the share of labels that the output predicts
//   top_k             the share of labels among the k classes with the largest outputs
//   precision, recall, f1
//                     of each class; average: macro is their mean over the classes that labels or
//                     predictions have, micro counts all classes together. Of binary labels: those
//                     of class 1
//   iou               true positives / (labels or predictions) of each class, and the mean,
//                     likewise
//   matthews          the correlation coefficient of Matthews, for any number of classes
//   confusion_matrix  how many labels of each class (row) are predicted as each class (column)
//   auc               the area under the receiver operating characteristic over `thresholds` equal
//                     steps of the probability from 0 to 1, as torchmetrics has it with
//                     `thresholds`; of several classes the mean, each against the others. With
//                     `exact` the area over all scores that there are, as scikit-learn's
//                     roc_auc_score: it gathers the scores and labels of all rows
//   perplexity        exp of the mean of -log softmax(output)[label]
//   bits_per_token, bits_per_byte
//                     the mean of -log2 softmax(output)[label]; the second divides it by
//                     `bytes_per_token`
//   edit_distance     the mean over the rows of the least number of insertions, removals and
//                     replacements that turn the predictions of a row into its labels. Predictions
//                     are the classes with the largest outputs, of ctc the most probable path
//                     without repetitions and blanks
//   exact_match       the share of rows whose predictions are their labels
//   cer, wer          the edits of all rows by their labels; of words that `separator` divides
//   mae, mse, rmse    mean absolute error, mean squared error and its root, over all elements
//   r2                1 - squared error / variance of the labels, the mean over the row's elements
std::span<const MetricRecipe> all_metrics();
// Null if there is none of that name.
const MetricRecipe* find_metric(std::string_view name);

// A job's metric: an entry with its settings.
struct MetricSpec {
  std::string name;
  SettingValues settings;

  // REQUIRES, of both: the table has the name.
  static MetricSpec of(std::string_view name);
  const MetricRecipe& recipe() const { return *find_metric(name); }
  // The name under which people and files have it: "top_5", "f1_micro", "exact_auc".
  std::string shown_name() const;
  // The "sums" of batches are numbers of their rows, which are put one behind the other.
  bool gathers() const { return settings.has("exact") && settings.flag("exact"); }
  // invalid_argument if it does not fit the loss: "expected a loss of ...".
  Status check_fits(const LossSpec& loss) const;
  bool operator==(const MetricSpec&) const = default;
};

}  // namespace leat
