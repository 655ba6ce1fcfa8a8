// The geometry of a reduction: the reduced axes, and the input as a few loops over contiguous
// lines.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "ops/graph/op.h"

namespace leat {

// ONNX's ReduceSum, ReduceMean, ReduceMax, ReduceMin, ReduceProd, ReduceSumSquare, ReduceL1 and
// ReduceL2.
enum class Reduction : uint8_t { sum, mean, max, min, prod, sum_square, l1, l2 };
std::string_view reduction_name(Reduction reduction);  // "sum"

// A set of axes, bit i for axis i. The rank is at most kMaxRank, so the bits suffice.
using AxisSet = uint32_t;

// The axes that a node reduces: those in input number `axes_input`; all axes if it is absent or
// empty, or no axis if noop_with_empty_axes is set. Negative axes count from the end.
// invalid_argument if the values are not known (the rank of the result follows from them), out of
// range, repeated, or no list.
Result<AxisSet> reduced_axes(const InferContext& ctx, int axes_input, int rank);
// The same for a kernel, after validation: it cannot fail.
AxisSet reduced_axes(const KernelSetup& setup, int axes_input, int rank);

// The shape of the result: a reduced axis is left out, or has size 1 with keepdims.
SymbolicShape reduced_shape(const SymbolicShape& shape, AxisSet axes, bool keepdims);

// The sets of axes that can lead from `in` to `out`, for rules that see only shapes and not the
// values of the operand `axes`. With keepdims there is at most one: an axis of size 1 counts as
// kept, since both are the same computation. Without, every subset that leaves `out` is listed, in
// ascending order. The result is empty if no set fits.
std::vector<AxisSet> possible_axes(const Shape& in, const Shape& out, bool keepdims);
// True if all possible sets keep axis 0, so that rows of the input are rows of the output.
bool keeps_rows(const Shape& in, const Shape& out, bool keepdims);

// A loop nest of sizes and strides (in elements), outermost first. Without loops it has one
// iteration, at offset 0.
struct Loops {
  std::array<int64_t, kMaxRank> sizes{}, strides{};
  int count = 0;
  // The number of iterations: the product of the sizes.
  int64_t total = 1;
  // Adds a loop inside of those that are there. REQUIRES: count < kMaxRank.
  void add(int64_t size, int64_t stride);
  // The offset of iteration `index`, of which the innermost loop runs fastest. REQUIRES: 0 <= index
  // < total.
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
  // true: the line is reduced to one result; false: the elements of the line are results.
  bool line_reduced = false;
  // The number of contiguous elements of the line; 1 if all axes of the row have size 1.
  int64_t line = 1;
  Loops kept;     // without the line
  Loops reduced;  // without the line
};
// The geometry of reducing `axes` of a row-major tensor. It follows from the shape alone, and the
// kernels take the order of their additions from it: the bits of a sum do not depend on threads.
// Sizes of 0 are legal.
ReduceShape make_reduce_shape(const Shape& in, AxisSet axes);

}  // namespace leat
