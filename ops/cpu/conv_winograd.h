// Convolutions of 3x3 by Winograd's algorithm, which multiplies a quarter as often as the direct
// one. f32, on processors with AVX-512. Errors are at most 3e-6 of the largest output. A NaN or an
// infinity reaches all of the 4x4 outputs of its tile.
#pragma once

#include <memory>

#include "ops/cpu/conv_engine.h"

namespace leat {

// Whether this processor can do it, and the geometry is one that it is for.
bool winograd_fits(const ConvSpec& spec);

// Whether it fits and is faster than the direct convolution, for `spec.images` images in all: a
// function of the shapes.
bool winograd_is_faster(const ConvSpec& spec);

// An image's bits depend neither on the number of images nor on the layouts. Weights are packed at
// the 36 points, which nothing undoes to the bit: only backward_weights has unpack().
// REQUIRES: winograd_fits(spec).
std::unique_ptr<ConvEngine> make_winograd_conv(const ConvSpec& spec);

}  // namespace leat
