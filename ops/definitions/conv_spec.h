// The convolution ops in one description: ConvSpec, made from checked shapes.
//
// In every spec, x is the operand on the side of the inputs and y that of the outputs, whichever of
// them the op computes:
//
//   Conv                   forward            x, w -> y
//   leat.ConvGradInput     backward_data      y, w -> x
//   ConvTranspose          backward_data      y, w -> x     the op's output is x
//   leat.ConvGradWeights   backward_weights   x, y -> w
//
// Shapes: x [N, inputs, sizes...], y [N, outputs, sizes...], w [outputs, inputs / groups,
// sizes...], with one to three spatial axes; bias [outputs].
#pragma once

#include "ops/definitions/window.h"
#include "ops/graph/kernel.h"

namespace leat {

enum class ConvKind : uint8_t {
  forward,           // y = activation(x * w + bias)
  backward_data,     // x from y and w
  backward_weights,  // w (and bias, if present) from x and y
};

// A value: kernels copy it. It has no addresses and no state.
struct ConvSpec {
  ConvKind kind = ConvKind::forward;
  // The dtype of the computation: f64, or f32 for f32, f16 and bf16 operands. A kernel that
  // multiplies bf16 as it is sets bf16.
  DType dtype = DType::f32;
  // The geometry with concrete sizes. Its input is that of x and its output that of y.
  Window window;
  // N, which may be 0, and the number of groups of channels, which do not mix.
  int64_t images = 0, groups = 1;
  int64_t inputs = 0, outputs = 0;  // channels of x and of y, over all groups
  Layout x_layout = Layout::plain, y_layout = Layout::plain;
  // Forward: a bias is added. backward_weights: its gradient is wanted, too.
  bool bias = false;
  bool relu = false;      // forward only
  bool winograd = false;  // true: Winograd's algorithm, see conv_winograd.h

  // The number of elements of w.
  int64_t weights() const { return outputs * (inputs / groups) * window.kernel_area(); }
  int64_t x_image() const { return inputs * window.input_area(); }  // elements of one image
  int64_t y_image() const { return outputs * window.output_area(); }
  int64_t multiply_adds() const {  // of one image
    return outputs * window.output_area() * (inputs / groups) * window.kernel_area();
  }
};

// The window of a kernel [outputs, inputs/groups, sizes...]. If the attribute kernel_shape is
// there, it must agree. Kernel sizes must be constant. Else, and if read_window() refuses the other
// attributes, the error is invalid_argument; it has no subject.
Result<WindowAttrs> conv_window(const Attrs& attrs, const SymbolicShape& w);

// The geometry of a ConvTranspose for inputs of known spatial sizes: the window with the explicit
// pads of the convolution that it transposes, and the sizes of the output.
struct TransposedWindow {
  // auto_pad is NOTSET, since the pads are explicit.
  WindowAttrs window;
  // One size for each spatial axis.
  std::vector<int64_t> output;
};
// Follows ONNX's ConvTranspose: an axis of size s has (s - 1) * stride + extent + output_padding
// elements before pads cut it. output_shape, if it is there, and SAME determine the output and with
// it the pads. `input` is the op's own input [N, C, sizes...]. invalid_argument if a spatial size
// is symbolic or 0, if an attribute has a wrong number of values, or if no output would be left;
// the error has no subject.
Result<TransposedWindow> transposed_window(const Attrs& attrs, const SymbolicShape& w,
                                           const SymbolicShape& input);

// The computation of one op as a ConvSpec. For ConvTranspose, x is the op's output and y its input.
// The operands' types have their layouts, which the spec takes over. `winograd` is false: the
// kernels decide it. REQUIRES: inference accepted the types.
Result<ConvSpec> conv_spec(const OpTypes& types);               // Conv
Result<ConvSpec> conv_grad_input_spec(const OpTypes& types);    // leat.ConvGradInput
Result<ConvSpec> conv_grad_weights_spec(const OpTypes& types);  // leat.ConvGradWeights
Result<ConvSpec> conv_transpose_spec(const OpTypes& types);     // ConvTranspose

// The number of images in one tile, from shapes alone: a sixteenth of the batch (rounded up), at
// most 32 images, but at least about a million multiply-adds. `multiply_adds` is that of one image.
// The result is in [1, max(1, images)].
int64_t conv_tile_images(int64_t images, int64_t multiply_adds);

// The number of output channels in one tile, if a gradient of weights is cut by channels.
inline constexpr int64_t kSliceOutputs = 32;
// True if the gradient of such weights is cut by output channels and not by images: the op has no
// row tiles then. The result follows from the shapes alone.
bool weights_by_channels(const ConvSpec& spec);
// The number of images in a tile of the other weight gradients. Each tile computes one partial sum,
// so this number determines the bits of the result; it follows from the shapes alone.
int64_t conv_weights_tile_images(const ConvSpec& spec);

}  // namespace leat
