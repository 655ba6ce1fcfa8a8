// The gradient of a table of which a step touches few rows, as (values, ids): the gradient of row
// ids[j] includes the line values[j]. Several kernels sum it by rows with this class. The bits of a
// sum are those of leat.GatherGrad for each use of the table, Add over the uses, and AllReduce over
// the shards.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "devices/base/status.h"
#include "ops/graph/kernel.h"

namespace leat {

// The sums of one instruction. A kernel sorts in a phase of one tile, and sums rows in the tiles of
// the next phase. The workspace begins with the result of sort().
//
// Threads: sort() runs first; then any threads may call the rest.
class RowSum {
 public:
  // REQUIRES: concrete types. invalid_argument if they do not fit a table of `rows` rows of `width`
  // elements.
  static Result<RowSum> make(const KernelSetup& setup, int values, int ids, int64_t rows,
                             int64_t width);

  size_t workspace_bytes() const;
  size_t scratch_bytes() const;  // for each thread
  int64_t ids() const { return ids_; }
  int64_t width() const { return width_; }

  // Finds the touched rows, ascending. An id out of range fails the step.
  Progress sort(KernelContext& context) const;
  int64_t touched(const KernelContext& context) const;
  int64_t row(const KernelContext& context, int64_t i) const;  // of touched row number i
  // The sum of touched row number i, in the scratch memory.
  template <typename T>
  const T* sum(const KernelContext& context, int64_t i) const;

 private:
  // One line: line `position` of the values belongs to `row`.
  struct Line {
    int64_t row, position;
    bool operator<(const Line& other) const {
      return row != other.row ? row < other.row : position < other.position;
    }
  };
  // The workspace: the number of touched rows; the index of each row's first line, and an end; the
  // lines.
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
