#include "ops/cpu/row_sum.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "devices/base/text.h"
#include "ops/cpu/elementwise_loops.h"
#include "ops/definitions/row_sum.h"
#include "ops/definitions/shapes.h"
#include "ops/graph/limits.h"

namespace leat {
namespace {

using elementwise::load;
using elementwise::store;

// to += from, rounded to T after each addition, as leat.GatherGrad and Add round.
template <typename T>
void add(T* to, const T* from, int64_t n) {
  LEAT_NO_OVERLAP
  for (int64_t i = 0; i < n; ++i) to[i] = store<T>(load(to[i]) + load(from[i]));
}

// The number of levels below the root of a tree over n shards. bit_width(n - 1) is the logarithm of
// n, rounded up.
int levels(int64_t shards) { return std::bit_width(static_cast<uint64_t>(shards - 1)); }

}  // namespace

Result<RowSum> RowSum::make(const KernelSetup& setup, int values, int ids, int64_t rows,
                            int64_t width) {
  const OperandType &of_values = setup.input(values), &of_ids = setup.input(ids);
  RowSum sum;
  sum.values_input_ = values;
  sum.ids_input_ = ids;
  auto lines = row_lines(of_values, of_ids, setup.attrs(), width);
  if (!lines.ok()) return invalid_argument(cat(setup.subject, ": ", lines.status().message()));
  sum.ids_ = lines->ids;
  sum.rows_ = rows;
  sum.width_ = width;
  sum.shards_ = lines->shards;
  sum.part_ends_ = std::move(lines->part_ends);
  sum.id_dtype_ = of_ids.dtype;
  sum.element_bytes_ = dtype_size(of_values.dtype);
  sum.subject_ = setup.subject;
  return sum;
}

size_t RowSum::workspace_bytes() const {
  const auto n = static_cast<size_t>(ids_);
  // n rows at most are touched: n + 1 indices with the end, and one number in front.
  return (n + 2) * sizeof(int64_t) + n * sizeof(Line);
}

// Room for one sum for each level of the tree and its root, and one of a part.
size_t RowSum::scratch_bytes() const {
  return static_cast<size_t>(levels(shards_) + 2) * static_cast<size_t>(width_) * element_bytes_;
}

// An id below 0 counts from the end of the table. The lines are sorted by row and then by position,
// and no two are equal, so the order of each row's sum is fixed.
Progress RowSum::sort(KernelContext& context) const {
  Line* line = lines(context);
  for (int64_t j = 0; j < ids_; ++j) {
    const int64_t given = int_at(context.inputs[ids_input_], id_dtype_, j);
    const int64_t row = given < 0 ? given + rows_ : given;
    if (row < 0 || row >= rows_) {
      context.step->fail(context.instruction,
                         invalid_argument(cat(subject_, ": expected an id in [", -rows_, ", ",
                                              rows_ - 1, "], received ", given, " as id ", j)));
      return Progress::failed;
    }
    line[j] = {row, j};
  }
  std::sort(line, line + ids_);
  // A row begins where the row of the line before is another one.
  int64_t *begin = begins(context), touched = 0;
  for (int64_t j = 0; j < ids_; ++j) {
    if (j == 0 || line[j].row != line[j - 1].row) begin[touched++] = j;
  }
  begin[touched] = ids_;
  begin[-1] = touched;
  return Progress::done;
}

int64_t RowSum::touched(const KernelContext& context) const { return begins(context)[-1]; }

int64_t RowSum::row(const KernelContext& context, int64_t i) const {
  return lines(context)[begins(context)[i]].row;
}

// Adds the lines of one shard part by part: `to` takes the sum of the first part, and `spare` that
// of each later one, which is then added. The lines ascend by position, so a part is contiguous.
// Every part begins with zero, as a dense gradient does: no sum is -0 therefore.
template <typename T>
void RowSum::sum_shard(const T* values, const Line* begin, const Line* end, T* to, T* spare) const {
  // The shards are split at the largest power of two below their number, as AllReduce splits them.
  const int64_t each = ids_ / shards_;
  const auto part_of = [&](const Line& line) {
    return std::upper_bound(part_ends_.begin(), part_ends_.end(), line.position % each);
  };
  for (T* sum = to; begin != end; sum = spare) {
    const auto part = part_of(*begin);
    std::fill_n(sum, width_, T{});
    for (; begin != end && part_of(*begin) == part; ++begin)
      add(sum, values + begin->position * width_, width_);
    if (sum != to) add(to, sum, width_);
  }
}

// The tree over shards [first, last). A shard without a line counts as a line of zeros.
template <typename T>
void RowSum::sum_shards(const T* values, const Line* begin, const Line* end, int64_t first,
                        int64_t last, T* to) const {
  if (last - first == 1) return sum_shard(values, begin, end, to, to + width_);
  const int64_t each = ids_ / shards_;
  const auto half = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(last - first - 1)));
  const Line* middle = std::partition_point(
      begin, end, [&](const Line& line) { return line.position / each < first + half; });
  // A side without a line would add zeros, which changes no bit, because no sum is -0.
  if (middle == end) return sum_shards(values, begin, end, first, first + half, to);
  if (middle == begin) return sum_shards(values, begin, end, first + half, last, to);
  // The right side uses the memory behind `to`: one buffer for each level of the recursion.
  sum_shards(values, begin, middle, first, first + half, to);
  sum_shards(values, middle, end, first + half, last, to + width_);
  add(to, to + width_, width_);
}

template <typename T>
const T* RowSum::sum(const KernelContext& context, int64_t i) const {
  const int64_t* begin = begins(context) + i;
  T* to = reinterpret_cast<T*>(context.scratch);
  const Line* all = lines(context);
  sum_shards(context.in<T>(values_input_), all + begin[0], all + begin[1], 0, shards_, to);
  return to;
}

// The instances for the dtypes that gradients may have.
template const float* RowSum::sum(const KernelContext&, int64_t) const;
template const double* RowSum::sum(const KernelContext&, int64_t) const;
template const Half* RowSum::sum(const KernelContext&, int64_t) const;
template const BFloat16* RowSum::sum(const KernelContext&, int64_t) const;

}  // namespace leat
