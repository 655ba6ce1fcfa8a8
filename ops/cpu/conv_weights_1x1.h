// The gradient of the weights of a 1x1 convolution in f32 as one product, for weights that are
// large beside their images: dW[o, c] = sum over the pixels p of dy[p, o] * x[p, c]. oneDNN's own
// gradients come in a packed format, and unpacking them takes longer than the product.
#pragma once

#include "ops/cpu/conv_kernel.h"

namespace leat {

// Whether the kernel below can compute this spec, and its copies of x and y are not too large. It
// is faster than the others for weights_by_channels(spec).
bool conv_weights_1x1_fits(const ConvSpec& spec);

// Computes w (output 0) and bias (output 1, if spec.bias) from x and y in channels16, with any
// strides and pads. The sum of an element is never split, so its bits depend on the shapes alone.
// REQUIRES: conv_weights_1x1_fits(spec). A step fails with internal if oneDNN fails.
std::unique_ptr<Kernel> make_conv_weights_1x1(const ConvSpec& spec, ConvOperands operands);

}  // namespace leat
