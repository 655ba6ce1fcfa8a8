// The steps of leat.AugmentImages on one image (ops/definitions/image.h).
#pragma once

#include <cstdint>

#include "ops/definitions/image.h"

namespace leat {

// The sizes of an image, [channels, height, width].
struct ImageSize {
  int64_t channels = 0, height = 0, width = 0;
  int64_t plane() const { return height * width; }
  int64_t elements() const { return channels * plane(); }
};

// Changes the image in place. `spare` has room for as many elements, and its content is lost.
// Sums are made in one order, so the bits are a function of the arguments. Threads: any.
void run_image_step(ImageStep step, double value, const ImageSize& size, float* image,
                    float* spare);
void run_image_step(ImageStep step, double value, const ImageSize& size, double* image,
                    double* spare);

}  // namespace leat
