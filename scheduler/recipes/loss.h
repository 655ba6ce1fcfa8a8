// The losses that a job file can name. An entry of the table has a name, settings, the kind of
// labels that it needs, and a function that adds the nodes of the loss to a graph.
//
// Threads: values; the table is constant.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "scheduler/recipes/setting.h"

namespace leat {

class LossNodes;

// The meaning of the labels, which also decides which metrics fit the loss.
enum class Labels : uint8_t {
  none,      // the loss is made from the output alone
  classes,   // an integer for each position of a row; with soft_labels, a probability of each class
  sequence,  // integers, a list for each row, which is shorter than the list of outputs
  binary,    // 0 or 1 for each element of the output
  values,    // a number for each element of the output
};

// All losses are means. N is the number of rows of the global batch, x the output and y the label.
struct LossRecipe {
  std::string_view name;
  std::span<const Setting> settings;
  Labels labels = Labels::values;
  // Adds the loss of a shard: the sum over the shard's rows, or over its labels if they are
  // classes. A scalar.
  uint32_t (*sum)(LossNodes& nodes) = nullptr;
  // The job file knows it by another key: {output: NAME}.
  bool has_name = true;
};

// cross_entropy: the mean over all labels of -log softmax(output)[label], with the classes along
// axis 1 or the last axis of the output (ClassLayout); the labels are integers. If the output has
// probabilities, as a Softmax makes them, p = min(max(output, 1e-7), 1 - 1e-7) is divided by its
// sum over the classes in place of the softmax, as Keras does. Labels that are ignored count
// neither in the sum nor in the number of labels; without any other label in the global batch the
// loss is 0. With weights of classes the mean is weighted: each label counts as the weight of its
// class. label_smoothing and soft labels are those of torch.nn.CrossEntropyLoss.
//
// The losses with binary labels and with values are means over all elements:
//
//   binary_cross_entropy  torch.nn.BCEWithLogitsLoss, or BCELoss without from_logits
//   focal                 torchvision.ops.sigmoid_focal_loss
//   hinge                 max(0, 1 - s x), s = 1 for y > 0, else -1
//   mse                   (x - y)^2
//   l1, mae               |x - y|
//   huber, smooth_l1      torch.nn.HuberLoss, torch.nn.SmoothL1Loss
//   log_cosh              log(cosh(x - y))
//   poisson               torch.nn.PoissonNLLLoss: exp(x) - y x, or without log_input
//                         x - y log(x + 1e-8)
//
// Those of whole rows are means over the rows:
//
//   kl_div                torch.nn.KLDivLoss(reduction="batchmean"): y log(y) - y x, summed
//   cosine                1 - cos(x, y)
//   triplet               torch.nn.TripletMarginLoss of an output [N,3,...]: the anchor, a row
//                         that is like it and one that is not
//   ctc                   torch.nn.CTCLoss of an output [N,T,C] of logits, or of logarithms of
//                         probabilities; with time_major [T,N,C]. Labels are padded to [N,S]:
//                         their lengths are a column, or those equal to ignore_index count for
//                         nothing and stand last
//   output                an output of the model is the loss: a scalar, the mean over the rows of
//                         the shard, or a value for each row (the mean over the row's elements
//                         counts), of which the loss is the mean
std::span<const LossRecipe> all_losses();
// Null if there is none of that name.
const LossRecipe* find_loss(std::string_view name);

// A job's loss, or a term of it: an entry with its settings.
struct LossSpec {
  std::string name = "cross_entropy";
  // The output of the model that is compared with the labels, or is the loss; empty: the first.
  std::string output;
  std::string column;  // of the data, with the labels; empty: "labels"
  // ctc: the columns with the lengths of the output's and the labels' sequences; empty: all of it.
  std::string input_lengths, label_lengths;
  double weight = 1;  // of the term in a sum of losses
  std::string term;   // the name of the term in a sum; empty: that of the loss
  SettingValues settings = SettingValues(find_loss("cross_entropy")->settings);
  std::optional<int64_t> ignore_index;  // cross_entropy with integers as labels, and ctc
  std::vector<double> class_weights;    // cross_entropy; empty: all classes count alike

  // The entry of that name with its defaults. REQUIRES: there is one.
  static LossSpec of(std::string_view name);
  // REQUIRES: the table has the name.
  const LossRecipe& recipe() const { return *find_loss(name); }
  Labels labels() const { return recipe().labels; }
  // The name under which people and files have a term of a sum: "loss_mse".
  std::string shown_name() const { return "loss_" + (term.empty() ? name : term); }
  // The labels are integers, one for each position of an output.
  bool has_class_labels() const { return labels() == Labels::classes && !soft_labels(); }
  bool soft_labels() const { return flag("soft_labels"); }
  // False if the output has probabilities.
  bool from_logits() const { return !settings.has("from_logits") || flag("from_logits"); }
  bool operator==(const LossSpec&) const = default;

 private:
  bool flag(std::string_view key) const { return settings.has(key) && settings.flag(key); }
};

}  // namespace leat
