// The data, the models and the references of tests/peers/loss_references.py, for tests of losses
// and metrics: a network of two layers on 5 numbers a row, in float64.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "devices/core/tensor.h"
#include "tests/daemon/training_testing.h"

namespace leat {

// Numbers between -1 and 1 that look random. The k-th is that of seed + k.
Tensor noise(const Shape& shape, int64_t seed, double scale = 1);
// Integers from 0 to count - 1, as i64.
Tensor class_labels(const Shape& shape, int64_t count);
// Rows of positive numbers whose sum over axis 1 is 1.
Tensor probabilities(const Shape& shape, int64_t seed);
// The same with -100 in place of every fifth.
Tensor with_ignored(Tensor labels);
// Labels [rows,2] of the classes `first` and `first` + 1. Row i has i % 3 of them; with `padded`
// the others are -1.
Tensor sequence_labels(int64_t rows, int64_t first, bool padded);
// The same as f64.
Tensor as_numbers(const Tensor& labels);

// A model `units` wide, whose output y has gone through the nodes `end`, which read z. `output`:
// the sizes of a row of y, or all sizes, with N among them. `batch`: "N", or a number.
std::string two_layers(int64_t units, const std::string& end, const std::string& output,
                       const std::string& batch = "N");

// The lines "NAME NUMBER NUMBER ..." of a file in tests/daemon/losses/.
std::map<std::string, std::vector<double>> references(const std::string& file);

// A folder with the model, its first weights, and both data sets.
class RecipeScene {
 public:
  // `labels`: of the training, or nothing.
  RecipeScene(const std::string& graph, int64_t units, int64_t rows, const Tensor* labels);
  // A validation of other rows.
  void validate_on(int64_t rows, const Tensor& labels);
  // Plain SGD in float64 on 3 shards, in the order of the rows. Entries of `set` replace its own.
  Job job(const std::string& loss, std::vector<std::string> set = {}) const;
  const SmallJob& small() const { return small_; }
  // The weights of a run in the order of the references: the tensors of the two layers.
  std::vector<double> weights(const std::string& folder) const;

 private:
  SmallJob small_;
  bool has_labels_, validates_ = false;
};

}  // namespace leat
