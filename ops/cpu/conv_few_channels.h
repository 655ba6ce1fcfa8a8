// Convolutions over images of few channels (a network's first layer), and the gradients of their
// weights: f32, one group, plain x, y in blocks of 16 channels, for CPUs with AVX-512. Registers
// hold a strip of outputs (or of gradients) of two blocks; each element of x is broadcast.
#pragma once

#include <memory>

#include "ops/cpu/conv_engine.h"

namespace leat {

// Returns null if the spec is no such convolution, or if this CPU (or this build) lacks AVX-512. It
// covers two spatial axes, at most 16 taps (input channels times the elements of the kernel) and a
// multiple of 16 output channels; there is no backward-data. The choice depends on nothing else;
// the bits of an image do not depend on the number of images.
std::unique_ptr<ConvEngine> make_few_channels_conv(const ConvSpec& spec);

}  // namespace leat
