// The windows of leat.DeformColumns, for its definition and its kernels.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/graph/kernel.h"
#include "ops/graph/op.h"

namespace leat {

inline constexpr int kMostDeformAxes = 3;

// The attributes of a node for `axes` axes, each with a value for every axis.
struct DeformWindow {
  std::vector<int64_t> kernel, strides, dilations, pads;  // pads: in front, then behind
  int64_t offset_groups = 1;

  int axes() const { return static_cast<int>(kernel.size()); }
  int64_t elements() const;
  // The number of windows along an axis of `size` elements; at most 0 if none fits.
  int64_t outputs(int axis, int64_t size) const;
};

// The windows of a node, whose kernel has these sizes; invalid_argument, without a subject, if the
// attributes do not fit.
Result<DeformWindow> deform_window(const Attrs& attrs, const std::vector<int64_t>& kernel);
// The same for a node's kernel, which has the sizes as input `of_kernel` and X as input `of_x`; the
// offsets follow X. All shapes are checked.
Result<DeformWindow> deform_window_of(const KernelSetup& setup, int of_x, int of_kernel);

}  // namespace leat
