// The geometry of a reduction: which axes, and the input seen as few loops over contiguous lines.
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

// The axes that a node names: input `axes` (known values), all where it names none, or none where
// noop_with_empty_axes says so. Repeated axes are refused.
Result<AxisSet> reduced_axes(const InferContext& ctx, int axes_input, int rank);
// The same once the gate has passed.
AxisSet reduced_axes(const KernelSetup& setup, int axes_input, int rank);

SymbolicShape reduced_shape(const SymbolicShape& shape, AxisSet axes, bool keepdims);

// The axes that can lead from `in` to `out`, as rules that see only shapes must guess them: every
// set that fits (sizes of 1 count as kept where it does not matter).
std::vector<AxisSet> possible_axes(const Shape& in, const Shape& out, bool keepdims);
// All of these keep axis 0, so that rows of the input are rows of the output.
bool keeps_rows(const Shape& in, const Shape& out, bool keepdims);

// A loop nest of sizes and strides (in elements), outermost first.
struct Loops {
  std::array<int64_t, kMaxRank> sizes{}, strides{};
  int count = 0;
  int64_t total = 1;
  void add(int64_t size, int64_t stride);
  int64_t offset(int64_t index) const;
};

// One row (an index of dimension 0 when that is kept, else the whole) after neighbouring axes of
// one kind are merged: the last merged axis is the line, either reduced to one result or folded
// with other lines element by element.
struct ReduceShape {
  int64_t rows = 1;
  int64_t row_elements = 1;  // of the input
  int64_t row_results = 1;   // of the output
  int64_t folded = 1;        // elements behind one result
  bool has_rows = false;     // dimension 0 is kept and stands apart
  bool line_reduced = false;
  int64_t line = 1;
  Loops kept;     // without the line
  Loops reduced;  // without the line
};
ReduceShape make_reduce_shape(const Shape& in, AxisSet axes);

}  // namespace leat
