// What the convolution ops mean: their shapes checked and turned into a ConvSpec.
#pragma once

#include "ops/cpu/conv_engine.h"
#include "ops/definitions/window.h"
#include "ops/graph/kernel.h"

namespace leat {

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

}  // namespace leat
