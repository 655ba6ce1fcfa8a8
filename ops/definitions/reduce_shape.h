// The geometry of a reduction: the reduced axes, and the input as a few loops over contiguous
// lines.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "ops/graph/op.h"

namespace leat {

enum class Reduction : uint8_t { sum, mean, max, min, prod, sum_square, l1, l2 };
std::string_view reduction_name(Reduction reduction);  // "sum"

// A set of axes, bit i for axis i.
using AxisSet = uint32_t;

// The axes that a node reduces: those in input `axes` (known values); all axes if it names none, or
// no axis if noop_with_empty_axes is set. Repeated axes are an error.
Result<AxisSet> reduced_axes(const InferContext& ctx, int axes_input, int rank);
// The same for a kernel, after validation.
AxisSet reduced_axes(const KernelSetup& setup, int axes_input, int rank);

SymbolicShape reduced_shape(const SymbolicShape& shape, AxisSet axes, bool keepdims);

// The sets of axes that can lead from `in` to `out`, for rules that see only shapes: every set that
// is compatible (axes of size 1 count as kept if both are possible).
std::vector<AxisSet> possible_axes(const Shape& in, const Shape& out, bool keepdims);
// True if all possible sets keep axis 0, so that rows of the input are rows of the output.
bool keeps_rows(const Shape& in, const Shape& out, bool keepdims);

// A loop nest of sizes and strides (in elements), outermost first.
struct Loops {
  std::array<int64_t, kMaxRank> sizes{}, strides{};
  int count = 0;
  int64_t total = 1;
  void add(int64_t size, int64_t stride);
  int64_t offset(int64_t index) const;
};

// One row of a reduction: an index of dimension 0 if that is kept, else the whole input.
// Neighbouring axes of the same kind (kept or reduced) are merged. The last merged axis is the
// line: a line is either reduced to one result, or folded with other lines element by element.
struct ReduceShape {
  int64_t rows = 1;
  int64_t row_elements = 1;  // of the input
  int64_t row_results = 1;   // of the output
  int64_t folded = 1;        // the number of elements that one result reduces
  bool has_rows = false;     // dimension 0 is kept and not merged
  bool line_reduced = false;
  int64_t line = 1;
  Loops kept;     // without the line
  Loops reduced;  // without the line
};
ReduceShape make_reduce_shape(const Shape& in, AxisSet axes);

}  // namespace leat
