// Kernels that only move elements: strided copies between operands, cut into tiles. Every movement
// op is a list of such copies, computed once when its kernel is made.
#pragma once

#include <array>
#include <vector>

#include "ops/graph/kernel.h"

namespace leat {

inline constexpr int kMaxCopyRank = 2 * kMaxRank;

// Copies out[out_offset + sum i_d * out_steps[d]] = in[in_offset + sum i_d * in_steps[d]] for all i
// < sizes. Offsets and steps count elements; input steps may be negative or 0 (a broadcast). The
// axes are outermost first. A size of 0 copies nothing, and rank 0 copies one element. The kernel
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

// The kernel moves bits, so results are exact for every dtype. A copy to an output that is absent
// in the context is left out. Tiles follow from the shapes (or from setup.tile_rows if plan.rows >
// 0); they may run at the same time, because no two write the same element. REQUIRES: all operands
// that are copied have the dtype of output 0, and none overlaps an output.
std::unique_ptr<Kernel> make_copy_kernel(const KernelSetup& setup, CopyPlan plan);

// Row-major steps of a shape, in elements.
std::array<int64_t, kMaxRank> row_major_steps(const Shape& shape);

}  // namespace leat
