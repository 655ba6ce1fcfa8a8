// The geometry that convolutions and pools share: a window that moves over one to three spatial
// axes, described by ONNX's attributes.
#pragma once

#include <array>
#include <vector>

#include "devices/base/status.h"
#include "ops/graph/op.h"

namespace leat {

// The checked attributes of one node: one value for each spatial axis, in the order of the data.
// read_window() makes it for all ops but global pools, with kernel sizes, strides and dilations in
// [1, kMostWindow] and pads in [0, kMostWindow].
struct WindowAttrs {
  std::vector<int64_t> kernel, strides, dilations, begin, end;  // begin, end: the pads
  std::string auto_pad = "NOTSET";
  // true: an output may begin in a window that leaves the padded input at its end (pools only).
  bool ceil_mode = false;

  // The number of spatial axes, 1 to 3.
  int rank() const { return static_cast<int>(kernel.size()); }
  // The elements that the dilated kernel spans: (kernel - 1) * dilation + 1.
  int64_t extent(int axis) const;
};

// A window with concrete sizes, over three axes; if there are fewer, the first ones have size 1.
// Element o of the output reads the inputs o * stride - begin + k * dilation. An input outside the
// range is padding. A kernel therefore has three loops for any rank.
struct Window {
  int rank = 0;  // spatial axes of the operands
  std::array<int64_t, 3> input{1, 1, 1}, output{1, 1, 1}, kernel{1, 1, 1};
  std::array<int64_t, 3> stride{1, 1, 1}, dilation{1, 1, 1}, begin{0, 0, 0}, end{0, 0, 0};

  // The numbers of elements over all axes, of one channel of one image.
  int64_t input_area() const { return input[0] * input[1] * input[2]; }
  int64_t output_area() const { return output[0] * output[1] * output[2]; }
  int64_t kernel_area() const { return kernel[0] * kernel[1] * kernel[2]; }
};

// The largest value of any attribute of a window, so that no product of two of them overflows.
inline constexpr int64_t kMostWindow = int64_t{1} << 30;

// Reads strides, pads, dilations, auto_pad and ceil_mode for a kernel of known size; absent and
// empty lists mean 1, 0 and 1. invalid_argument for a kernel of other than one to three axes, a
// list of another length, a value out of range, an unknown auto_pad, and pads other than 0 beside
// auto_pad. An error names the attribute but has no subject.
Result<WindowAttrs> read_window(const Attrs& attrs, std::vector<int64_t> kernel);

// The pads along an axis whose input size is known, with auto_pad resolved. SAME makes ceil(input /
// stride) outputs; if the sum of its pads is odd, SAME_UPPER puts the odd element at the end and
// SAME_LOWER at the beginning.
struct Pads {
  int64_t begin = 0, end = 0;
};
Pads pads_of(const WindowAttrs& window, int axis, int64_t input);
// The output size along an axis; invalid_argument if the window is larger than the padded input.
Result<int64_t> output_size(const WindowAttrs& window, int axis, int64_t input);
// The same for a size that may be symbolic: the result is the same symbol if the size does not
// change, else a new one.
Result<Dim> output_dim(InferContext& ctx, const WindowAttrs& window, int axis, Dim input);

// The window for the spatial sizes of input and output (dims from 2 on), with explicit pads. The
// axes are at the end of its arrays: a window of rank 1 is in element 2. REQUIRES: the shapes have
// window.rank() + 2 dimensions, and the sizes fit `window`.
Window concrete_window(const WindowAttrs& window, const Shape& input, const Shape& output);

// The equivalent attributes strides, dilations and pads, for gradient ops, which have no auto_pad.
// kernel_shape and ceil_mode are left to the caller. The result is empty if auto_pad depends on a
// spatial size of `input` that is not known.
std::optional<Attrs> explicit_window(const WindowAttrs& window, const SymbolicShape& input);

// The sizes of dims from 2 on, as an attribute; nothing if one is symbolic.
std::optional<std::vector<int64_t>> spatial_sizes(const SymbolicShape& shape);

}  // namespace leat
