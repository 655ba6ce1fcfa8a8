// The margins of Pad, for its definition and its kernels.
#pragma once

#include <algorithm>
#include <array>

#include "devices/base/text.h"
#include "ops/definitions/shapes.h"
#include "ops/graph/kernel.h"
#include "ops/graph/limits.h"
#include "ops/graph/op.h"

namespace leat {

// The elements to add before and after each axis; a negative number removes elements. Both lists
// have one number for each axis of the data, 0 for the axes that operand `axes` does not name.
struct PadMargins {
  std::vector<int64_t> before, after;
};

// The margins from the values of `pads` and `axes` (normalized). As in ONNX's Pad, the first half
// of `pads` has the elements before each axis of `axes`, the second half those after it. REQUIRES:
// pads.size() == 2 * axes.size(), and each axis is in [0, rank) and occurs once.
inline PadMargins pad_margins(const std::vector<int64_t>& pads, const std::vector<int>& axes,
                              int rank) {
  PadMargins m{std::vector<int64_t>(static_cast<size_t>(rank)),
               std::vector<int64_t>(static_cast<size_t>(rank))};
  for (size_t i = 0; i < axes.size(); ++i) {
    m.before[static_cast<size_t>(axes[i])] = pads[i];
    m.after[static_cast<size_t>(axes[i])] = pads[i + axes.size()];
  }
  return m;
}

// The default of operand `axes`: all axes, 0 to rank - 1.
inline std::vector<int64_t> axes_to_pad(int rank) {
  std::vector<int64_t> axes;
  for (int d = 0; d < rank; ++d) axes.push_back(d);
  return axes;
}

// The margins for a kernel, checked against concrete shapes: inference may not have known them.
// `inner` is the shape without the pads, `outer` the shape with them; the others are the indices of
// the operands. unimplemented if the pads are not known at compile time, invalid_argument if the
// shapes do not fit.
Result<PadMargins> kernel_margins(const KernelSetup& setup, const Shape& inner, const Shape& outer,
                                  int pads_input, int axes_input);

// The index of the input that index `i` of the output copies, in the modes edge, wrap and reflect.
// `i` counts from the first element of the input; `size` is that of the axis.
int64_t shown_index(const std::string& mode, int64_t i, int64_t size);

}  // namespace leat
