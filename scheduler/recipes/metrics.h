// The functions of the table of metrics: see MetricRecipe. Private to scheduler/recipes/.
#pragma once

#include <span>
#include <vector>

#include "scheduler/recipes/metric_nodes.h"

namespace leat::metrics {

using Sums = std::span<const double>;
using Values = std::vector<double>;

// The sums of a batch; the comments tell their order. C is the number of classes, T that of
// thresholds, E that of elements in a row.
ValueId top_k_sums(MetricNodes& n);       // hits, labels
ValueId class_sums(MetricNodes& n);       // of each class: hits; predictions; labels
ValueId confusion_sums(MetricNodes& n);   // [C,C]: of each class the predictions of each class
ValueId auc_sums(MetricNodes& n);         // [2,C,T]: labels of a class above a threshold; others
ValueId perplexity_sums(MetricNodes& n);  // -log p, labels
ValueId edit_sums(MetricNodes& n);        // edits, rows
ValueId match_sums(MetricNodes& n);       // rows without an edit, rows
ValueId character_sums(MetricNodes& n);   // edits, labels
ValueId word_sums(MetricNodes& n);        // edits of words, words
ValueId absolute_sums(MetricNodes& n);    // |x - y|, elements
ValueId squared_sums(MetricNodes& n);     // (x - y)^2, elements
ValueId variance_sums(MetricNodes& n);    // [3,E]: y; y^2; (x - y)^2, and last the rows

// The values of sums that have all batches: one number, or one for each element of a matrix.
Values ratio(Sums sums, const MetricContext& m);  // the first by the second
Values root_of_ratio(Sums sums, const MetricContext& m);
Values perplexity(Sums sums, const MetricContext& m);
Values bits(Sums sums, const MetricContext& m);  // of a label, or of a byte
Values precision(Sums sums, const MetricContext& m);
Values recall(Sums sums, const MetricContext& m);
Values f1(Sums sums, const MetricContext& m);
Values iou(Sums sums, const MetricContext& m);
Values matthews(Sums sums, const MetricContext& m);
Values matrix(Sums sums, const MetricContext& m);  // as they are
Values auc(Sums sums, const MetricContext& m);
Values r2(Sums sums, const MetricContext& m);

}  // namespace leat::metrics
