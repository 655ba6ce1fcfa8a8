// Depthwise convolutions (one group for each channel) in f32 with x and y in blocks of 16 channels,
// for CPUs with AVX-512: the gradients of their weights, and those outputs for which oneDNN has no
// fast loops. A register holds 16 channels of one position.
#pragma once

#include <memory>

#include "ops/cpu/conv_engine.h"

namespace leat {

// Returns null if the spec is no such convolution, or if this CPU (or this build) lacks AVX-512. It
// covers two spatial axes: gradients of weights of any window; forward and backward-data with
// stride 1 where the window is larger than the output, as 7x7 over 4x4. The choice depends on
// nothing else; the bits of an image do not depend on the number of images.
std::unique_ptr<ConvEngine> make_depthwise_conv(const ConvSpec& spec);

}  // namespace leat
