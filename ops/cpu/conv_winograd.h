// Convolutions of 3x3 with Winograd's algorithm, which needs a quarter of the multiplications of
// the direct one. f32, on processors with AVX-512. Errors are at most 3e-6 of the largest output. A
// NaN or an infinity spreads to all of the 4x4 outputs of its tile.
#pragma once

#include <memory>

#include "ops/cpu/conv_engine.h"

namespace leat {

// True if this processor has the instructions and the algorithm covers the geometry: f32, two
// spatial axes, 3x3, stride and dilation 1, one group, both numbers of channels multiples of 16, at
// least one image.
bool winograd_fits(const ConvSpec& spec);

// True if winograd_fits() and the algorithm is faster than the direct convolution, for
// `spec.images` images in all. The result depends on the shapes and the processor's instructions
// alone, never on a measurement.
bool winograd_is_faster(const ConvSpec& spec);

// Makes the engine. The bits of an image depend neither on the number of images nor on the layouts.
// Weights are packed as their transforms at the 36 points. The transform cannot be inverted
// exactly, so only backward_weights has unpack(). REQUIRES: winograd_fits(spec).
std::unique_ptr<ConvEngine> make_winograd_conv(const ConvSpec& spec);

}  // namespace leat
