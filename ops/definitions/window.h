// The geometry that convolutions and pools share: a window that moves over one to three spatial
// axes, described by ONNX's attributes.
#pragma once

#include <array>
#include <vector>

#include "devices/base/status.h"
#include "ops/graph/op.h"

namespace leat {

// The checked attributes of one node: `rank` values each.
struct WindowAttrs {
  std::vector<int64_t> kernel, strides, dilations, begin, end;  // begin, end: the pads
  std::string auto_pad = "NOTSET";
  bool ceil_mode = false;

  int rank() const { return static_cast<int>(kernel.size()); }
  int64_t extent(int axis) const;  // of the dilated kernel
};

// A window with concrete sizes, over three axes; if there are fewer, the first ones have size 1.
// Element o of the output reads the inputs o * stride - begin + k * dilation. An input outside the
// range is padding.
struct Window {
  int rank = 0;  // spatial axes of the operands
  std::array<int64_t, 3> input{1, 1, 1}, output{1, 1, 1}, kernel{1, 1, 1};
  std::array<int64_t, 3> stride{1, 1, 1}, dilation{1, 1, 1}, begin{0, 0, 0}, end{0, 0, 0};

  int64_t input_area() const { return input[0] * input[1] * input[2]; }
  int64_t output_area() const { return output[0] * output[1] * output[2]; }
  int64_t kernel_area() const { return kernel[0] * kernel[1] * kernel[2]; }
};

inline constexpr int64_t kMostWindow = int64_t{1} << 30;  // of any attribute

// Reads strides, pads, dilations, auto_pad and ceil_mode for a kernel of known size. An error names
// the attribute but has no subject.
Result<WindowAttrs> read_window(const Attrs& attrs, std::vector<int64_t> kernel);

// The pads along an axis whose input size is known, with auto_pad resolved.
struct Pads {
  int64_t begin = 0, end = 0;
};
Pads pads_of(const WindowAttrs& window, int axis, int64_t input);
// The output size along an axis; invalid_argument if the window is larger than the padded input.
Result<int64_t> output_size(const WindowAttrs& window, int axis, int64_t input);
// The same for a size that may be symbolic: the result is the same symbol if the size does not
// change, else a new one.
Result<Dim> output_dim(InferContext& ctx, const WindowAttrs& window, int axis, Dim input);

// The window for the spatial sizes of input and output (dims from 2 on). REQUIRES: the sizes fit
// `window`.
Window concrete_window(const WindowAttrs& window, const Shape& input, const Shape& output);

// The equivalent attributes with explicit pads, for gradient ops. The result is empty if auto_pad
// depends on a spatial size of `input` that is not known.
std::optional<Attrs> explicit_window(const WindowAttrs& window, const SymbolicShape& input);

// The spatial sizes as an attribute; empty if one is symbolic.
std::optional<std::vector<int64_t>> spatial_sizes(const SymbolicShape& shape);

}  // namespace leat
