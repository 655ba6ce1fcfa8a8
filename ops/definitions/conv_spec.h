// What the convolution ops mean: their shapes checked and turned into a ConvSpec.
#pragma once

#include "ops/definitions/window.h"
#include "ops/graph/kernel.h"

namespace leat {

enum class ConvKind : uint8_t {
  forward,           // y = activation(x * w + bias)
  backward_data,     // x from y and w
  backward_weights,  // w (and bias, if present) from x and y
};

struct ConvSpec {
  ConvKind kind = ConvKind::forward;
  DType dtype = DType::f32;  // f32 or f64
  Window window;
  int64_t images = 0, groups = 1;
  int64_t inputs = 0, outputs = 0;  // channels of x and of y, over all groups
  Layout x_layout = Layout::plain, y_layout = Layout::plain;
  bool bias = false;
  bool relu = false;      // forward only
  bool winograd = false;  // by Winograd's algorithm: see conv_winograd.h

  int64_t weights() const { return outputs * (inputs / groups) * window.kernel_area(); }
  int64_t x_image() const { return inputs * window.input_area(); }  // elements of one image
  int64_t y_image() const { return outputs * window.output_area(); }
  int64_t multiply_adds() const {  // of one image
    return outputs * window.output_area() * (inputs / groups) * window.kernel_area();
  }
};

// Sizes of a kernel [outputs, inputs/groups, sizes...]; kernel_shape, if there, must agree. Kernel
// sizes must be constant. Errors are without a subject.
Result<WindowAttrs> conv_window(const Attrs& attrs, const SymbolicShape& w);

// ConvTranspose's geometry for inputs of known spatial sizes: the window with explicit pads, as the
// convolution that it transposes has them, and the sizes of the output.
struct TransposedWindow {
  WindowAttrs window;
  std::vector<int64_t> output;
};
Result<TransposedWindow> transposed_window(const Attrs& attrs, const SymbolicShape& w,
                                           const SymbolicShape& input);

// What one op computes. For ConvTranspose x is the op's output and y its input.
// REQUIRES: types that inference accepted.
Result<ConvSpec> conv_spec(const OpTypes& types);               // Conv
Result<ConvSpec> conv_grad_input_spec(const OpTypes& types);    // leat.ConvGradInput
Result<ConvSpec> conv_grad_weights_spec(const OpTypes& types);  // leat.ConvGradWeights
Result<ConvSpec> conv_transpose_spec(const OpTypes& types);     // ConvTranspose

// Images in one tile, from shapes alone: about a sixteenth of the batch, at least a million
// multiply-adds.
int64_t conv_tile_images(int64_t images, int64_t multiply_adds);

// Output channels in one tile of a gradient of weights that is cut by channels.
inline constexpr int64_t kSliceOutputs = 32;
// Whether gradients of such weights are cut by output channels and not by images: then the op has
// no row tiles. A function of the shapes alone.
bool weights_by_channels(const ConvSpec& spec);
// Images in a tile of the other weight gradients: each tile leaves one partial sum, so that the
// bits depend on it. Of the shapes alone.
int64_t conv_weights_tile_images(const ConvSpec& spec);

}  // namespace leat
