// TfIdfVectorizer: how often a sequence has each n-gram of a pool. Leat has its form of integers.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "devices/base/status.h"
#include "ops/graph/attrs.h"

namespace leat {

// The n-grams of a pool as a tree: the path to a node is an n-gram, or the beginning of one.
class NGrams {
 public:
  // Reads the attributes. invalid_argument, without a subject, for lists that do not fit together;
  // unimplemented for a pool of strings.
  static Result<NGrams> read(const Attrs& attrs);

  int64_t columns() const { return columns_; }
  // Counts the n-grams of a sequence into `row`, which has columns() elements, and weighs them.
  // T is int32_t or int64_t. It allocates nothing.
  template <typename T>
  void count(const T* sequence, int64_t length, float* row) const;

 private:
  Status add_all(const std::vector<int64_t>& pool, const std::vector<int64_t>& begins,
                 const std::vector<int64_t>& columns);
  void add(std::span<const int64_t> n_gram, int64_t column);

  std::map<std::pair<int, int64_t>, int> children_;  // (node, item) -> node; 0 is the root
  std::vector<int64_t> column_ = {-1};               // by node; -1: no n-gram ends there
  std::vector<double> weights_;                      // by column; empty: 1
  int64_t columns_ = 0, shortest_ = 1, longest_ = 1, most_skipped_ = 0;
  bool once_ = false;  // an n-gram counts as 1, however often it is there
};

}  // namespace leat
