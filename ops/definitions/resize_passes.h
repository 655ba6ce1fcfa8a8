// Resize as kernels compute it: one axis after the other, each as sums of few elements.
#pragma once

#include <cstdint>
#include <vector>

#include "devices/base/shape.h"
#include "devices/base/status.h"
#include "ops/definitions/resize.h"
#include "ops/graph/kernel.h"

namespace leat {

// One axis of a block [before, in, after] becomes [before, out, after], by the weights of
// AxisWeights.
struct ResizePass {
  int64_t before = 1, in = 0, out = 0, after = 1;
  AxisWeights weights;

  int64_t elements() const { return before * out * after; }
};

// The passes of a node, in the order of their work. The input is `blocks` blocks of all axes from
// the first resized one on.
struct ResizePasses {
  std::vector<ResizePass> list;
  int64_t blocks = 1, in_block = 1, out_block = 1;
  int64_t largest = 1;  // elements of a block before, between or after passes
};

// Of Resize from `input` to `output`, or of its gradient from the output to the input.
ResizePasses resize_passes(const ResizeSpec& spec, const Shape& input, const Shape& output,
                           bool backward);

// The spec of a Resize, or of its gradient, whose operands are constants. invalid_argument if one
// is not, or if the output has another shape.
Result<ResizeSpec> resize_spec_of(const KernelSetup& setup, const Shape& input,
                                  const Shape& output);

}  // namespace leat
