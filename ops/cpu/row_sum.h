// The gradient of a table of which a step touches few rows, as (values, ids): the gradient of row
// ids[j] includes the line values[j]. Several kernels sum it by rows with this class. The bits of a
// sum are those of leat.GatherGrad for each use of the table, Add over the uses, and AllReduce over
// the shards.
//
//   // Phase 0, in its only tile:
//   return sum.sort(context);
//   // Phase 1, in each tile, for the touched rows [begin, end) of the tile:
//   for (int64_t i = begin; i < std::min(end, sum.touched(context)); ++i) {
//     const float* gradient = sum.sum<float>(context, i);
//     update(sum.row(context, i), gradient);
//   }
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "devices/base/status.h"
#include "ops/graph/kernel.h"

namespace leat {

// The sums of one instruction. A kernel owns the object and makes it once, from its setup; the
// object has no state of a step, which is all in the workspace and the scratch memory of the
// kernel. A kernel sorts in a phase of one tile, and sums rows in the tiles of the next phase. The
// workspace begins with the result of sort(), which takes workspace_bytes(); what the kernel itself
// needs comes behind it.
//
// The ids are a concatenation over `shards` (an attribute of the op), with the same number from
// each, and within a shard over the uses of the table (`parts`). The lines of one use are added in
// their order from zero, the uses in their order, and the shards in the tree that splits at the
// largest power of two. f16 and bf16 are rounded after each addition, as the ops that this replaces
// round.
//
// Threads: sort() runs first; then any threads may call the rest, each with its own scratch memory.
class RowSum {
 public:
  // `values` and `ids` are the indices of these inputs: values [n, width] in a float dtype, with
  // any number of axes behind the first, and ids [n] in i32 or i64. REQUIRES: concrete types.
  // invalid_argument if they do not fit a table of `rows` rows of `width` elements, or if n does
  // not fit the shards and parts.
  static Result<RowSum> make(const KernelSetup& setup, int values, int ids, int64_t rows,
                             int64_t width);

  // The bytes of the workspace: about 24 for each id, for the lines and for the start of each
  // touched row.
  size_t workspace_bytes() const;
  // The bytes of scratch memory for each thread that calls sum(): one row for each level of the
  // tree over the shards, and two more.
  size_t scratch_bytes() const;  // for each thread
  // The number of ids, which is also the most rows that can be touched; kernels derive their tiles
  // from it.
  int64_t ids() const { return ids_; }
  int64_t width() const { return width_; }

  // Finds the touched rows, ascending, and sorts the lines by row and then by position. A negative
  // id counts from the end of the table, as in ONNX's Gather. An id out of range fails the step
  // with invalid_argument, and returns failed. It allocates nothing; the time is that of sorting n
  // pairs on one thread.
  Progress sort(KernelContext& context) const;
  // The number of different rows among the ids of this step; 0 if there are no ids.
  int64_t touched(const KernelContext& context) const;
  // The row of the table that is touched row number i, for i < touched(). Rows ascend with i.
  int64_t row(const KernelContext& context, int64_t i) const;  // of touched row number i
  // The sum of touched row number i: `width` elements at the start of the scratch memory, valid
  // until the next call on this thread. T is the dtype of the values: float, double, Half or
  // BFloat16. A sum is never -0, because it begins with zero.
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
  // Sums the lines [begin, end) of one row and one shard into `to`, use by use; `spare` holds the
  // sum of a later use. Both have `width` elements.
  template <typename T>
  void sum_shard(const T* values, const Line* begin, const Line* end, T* to, T* spare) const;
  // Sums the lines of one row in the tree over the shards [first, last). The levels of the
  // recursion use the memory behind `to`.
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
