// The gradient of a convolution's weights in bf16 as one product, for weights that are large beside
// their images: processors with tiles (AMX) multiply matrices several times as fast as oneDNN's
// convolutions compute such gradients.
//
// The rows of the product are the output channels, and it sums over all pixels of all images:
// dW[o, c, tap] = sum over p of dy[p, o] * x[p at tap, c]. The sum of an element is never split, so
// its bits depend on the shapes alone.
#pragma once

#include "ops/cpu/conv_kernel.h"

namespace leat {

// Whether the kernel below can compute this spec, and its matrices are not too large. It is faster
// than the others for weights_by_channels(spec).
bool conv_weights_product_fits(const ConvSpec& spec);

// Computes w (output 0) and bias (output 1, if spec.bias), both f32, from x and y, both bf16 in
// channels16. REQUIRES: conv_weights_product_fits(spec). unimplemented if oneDNN has no fast
// product; a step fails with internal if oneDNN fails.
Result<std::unique_ptr<Kernel>> make_conv_weights_product(const ConvSpec& spec,
                                                          ConvOperands operands);

}  // namespace leat
