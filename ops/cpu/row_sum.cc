#include "ops/cpu/row_sum.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "devices/base/text.h"
#include "ops/cpu/elementwise_loops.h"
#include "ops/definitions/row_sum.h"
#include "ops/definitions/shapes.h"
#include "ops/graph/limits.h"

namespace leat {
namespace {

using elementwise::load;
using elementwise::store;

template <typename T>
void add(T* to, const T* from, int64_t n) {
  LEAT_NO_OVERLAP
  for (int64_t i = 0; i < n; ++i) to[i] = store<T>(load(to[i]) + load(from[i]));
}

// The number of levels below the root of a tree over n shards.
int levels(int64_t shards) { return std::bit_width(static_cast<uint64_t>(shards - 1)); }

}  // namespace

Result<RowSum> RowSum::make(const KernelSetup& setup, int values, int ids, int64_t rows,
                            int64_t width) {
  const OperandType &of_values = setup.input(values), &of_ids = setup.input(ids);
  RowSum sum;
  sum.values_input_ = values;
  sum.ids_input_ = ids;
  sum.ids_ = of_ids.shape.elements();
  sum.rows_ = rows;
  sum.width_ = width;
  sum.shards_ = row_shards(setup.attrs());
  const auto parts = attr_ints(setup.attrs(), "parts");
  sum.part_ends_.resize(parts.size());
  std::partial_sum(parts.begin(), parts.end(), sum.part_ends_.begin());
  const int64_t each = sum.ids_ / sum.shards_;
  if (parts.empty()) sum.part_ends_ = {each};
  if (of_values.shape.elements() != sum.ids_ * width || each * sum.shards_ != sum.ids_ ||
      sum.part_ends_.back() != each) {
    return invalid_argument(cat(setup.subject, ": expected lines of ", width, " elements from ",
                                sum.shards_, " shards of ", sum.part_ends_.back(),
                                " ids, received ", of_values.shape, " and ids ", of_ids.shape));
  }
  sum.id_dtype_ = of_ids.dtype;
  sum.element_bytes_ = dtype_size(of_values.dtype);
  sum.subject_ = setup.subject;
  return sum;
}

size_t RowSum::workspace_bytes() const {
  const auto n = static_cast<size_t>(ids_);
  return (n + 2) * sizeof(int64_t) + n * sizeof(Line);
}

// Room for one sum for each level of the tree and its root, and one of a part.
size_t RowSum::scratch_bytes() const {
  return static_cast<size_t>(levels(shards_) + 2) * static_cast<size_t>(width_) * element_bytes_;
}

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

// Every part begins with zero, as a dense gradient does: no sum is -0 therefore.
template <typename T>
void RowSum::sum_shard(const T* values, const Line* begin, const Line* end, T* to, T* spare) const {
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
  if (middle == end) return sum_shards(values, begin, end, first, first + half, to);
  if (middle == begin) return sum_shards(values, begin, end, first + half, last, to);
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

template const float* RowSum::sum(const KernelContext&, int64_t) const;
template const double* RowSum::sum(const KernelContext&, int64_t) const;
template const Half* RowSum::sum(const KernelContext&, int64_t) const;
template const BFloat16* RowSum::sum(const KernelContext&, int64_t) const;

}  // namespace leat
