// Ops that only move elements, as lists of strided copies between operands. A list is computed
// once, when the kernel of a node is made; each device has one kernel that runs such a list.
//
// Threads: pure functions and values.
#pragma once

#include <array>
#include <vector>

#include "devices/base/status.h"
#include "ops/graph/kernel.h"

namespace leat {

inline constexpr int kMaxCopyRank = 2 * kMaxRank;

// Copies out[out_offset + sum i_d * out_steps[d]] = in[in_offset + sum i_d * in_steps[d]] for all i
// < sizes. Offsets and steps count elements; input steps may be negative or 0 (a broadcast). The
// axes are outermost first. A size of 0 copies nothing, and rank 0 copies one element. A kernel
// drops axes of size 1 and merges neighbours, so the caller need not.
//
//   StridedCopy copy;  // the transpose of a [rows, columns] matrix
//   copy.add_axis(columns, 1, rows);
//   copy.add_axis(rows, columns, 1);
//   return make_copy_kernel(setup, {{copy}});
struct StridedCopy {
  int input = 0;
  int output = 0;
  int rank = 0;
  std::array<int64_t, kMaxCopyRank> sizes{}, in_steps{}, out_steps{};
  int64_t in_offset = 0;
  int64_t out_offset = 0;

  // Adds an axis inside of those that are there. REQUIRES: rank < kMaxCopyRank.
  void add_axis(int64_t size, int64_t in_step, int64_t out_step);
};

// All movements of one op. The kernel has one phase, or two if it fills output 0 and has no rows.
struct CopyPlan {
  std::vector<StridedCopy> copies;  // no two overlap in the output
  // If > 0, the first axis of each copy is all of dimension 0, with this many rows, in input and
  // output; then the kernel is cut into rows.
  int64_t rows = 0;
  // If >= 0, output 0 is filled before the copies: with the element of this input, or with zero if
  // the input is absent (kZeroFill is always absent).
  int fill_input = -1;
};
inline constexpr int kZeroFill = 1 << 20;

// Row-major steps of a shape, in elements.
std::array<int64_t, kMaxRank> row_major_steps(const Shape& shape);

// The same copy without axes of size 1, and with neighbouring axes that are contiguous on both
// sides merged; the first axis is not merged if `keep_first`. At least one axis remains.
StridedCopy collapsed(const StridedCopy& copy, bool keep_first);

// The copies of each op, from the types and constants of a node. unimplemented if bounds are not
// known at compile time, invalid_argument if they do not fit the concrete shapes.
Result<CopyPlan> transpose_copies(const KernelSetup& setup);
Result<CopyPlan> concat_copies(const KernelSetup& setup);
// An output that is absent has no copy.
Result<CopyPlan> split_copies(const KernelSetup& setup);
Result<CopyPlan> tile_copies(const KernelSetup& setup);
Result<CopyPlan> slice_copies(const KernelSetup& setup);
// The gradient of Slice: zero except for the part that the slice kept.
Result<CopyPlan> slice_grad_copies(const KernelSetup& setup);
// Pad in its mode "constant": see pad.h for the other modes.
Result<CopyPlan> constant_pad_copies(const KernelSetup& setup);

}  // namespace leat
