// The gradient of a table of which few rows are touched, as (values, ids): row ids[j] gets the line
// values[j]. What kernels share that sum it by rows, and the rule by which they do: to the bit that
// of leat.GatherGrad for each use of the table, Add over the uses, and AllReduce over the shards.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "devices/base/status.h"
#include "ops/graph/kernel.h"

namespace leat {

// One instruction's sums. A kernel sorts in a phase of one tile, then sums rows in tiles of the
// next one. The workspace begins with what sort() leaves there.
//
// Threads: sort() first, then any.
class RowSum {
 public:
  // Types must be concrete. invalid_argument: those that do not fit a table of `rows` rows of
  // `width` elements.
  static Result<RowSum> make(const KernelSetup& setup, int values, int ids, int64_t rows,
                             int64_t width);

  size_t workspace_bytes() const;
  size_t scratch_bytes() const;  // for each thread
  int64_t ids() const { return ids_; }
  int64_t width() const { return width_; }

  // Finds the rows that are touched, ascending. Fails the step at an id out of range.
  Progress sort(KernelContext& context) const;
  int64_t touched(const KernelContext& context) const;
  int64_t row(const KernelContext& context, int64_t i) const;  // of touched row number i
  // The sum of touched row number i, in the scratch.
  template <typename T>
  const T* sum(const KernelContext& context, int64_t i) const;

 private:
  // Line `position` of the values goes to `row`.
  struct Line {
    int64_t row, position;
    bool operator<(const Line& other) const {
      return row != other.row ? row < other.row : position < other.position;
    }
  };
  // The workspace: the number of touched rows; where each one's lines begin, and an end; the lines.
  int64_t* begins(const KernelContext& context) const {
    return reinterpret_cast<int64_t*>(context.workspace) + 1;
  }
  Line* lines(const KernelContext& context) const {
    return reinterpret_cast<Line*>(begins(context) + ids_ + 1);
  }
  template <typename T>
  void sum_shard(const T* values, const Line* begin, const Line* end, T* to, T* spare) const;
  template <typename T>
  void sum_shards(const T* values, const Line* begin, const Line* end, int64_t first, int64_t last,
                  T* to) const;

  int values_input_ = 0, ids_input_ = 0;
  int64_t ids_ = 0, rows_ = 0, width_ = 0, shards_ = 1;
  std::vector<int64_t> part_ends_;  // within a shard
  DType id_dtype_ = DType::i64;
  size_t element_bytes_ = 4;
  std::string subject_;
};

}  // namespace leat
