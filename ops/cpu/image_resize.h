// Resizing of images for leat.ResizeImages: bytes as Pillow resizes images of its mode L, and f32
// as those of its mode F, to the bit.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <type_traits>

#include "devices/base/status.h"
#include "ops/images/geometry.h"

namespace leat {

// Resizes a part of each of `planes` planes of [height, width] to those of `geometry`. Planes
// follow each other without gaps. Threads: any; it keeps memory on each.
template <typename T>
Status resize_planes(const T* in, int64_t planes, int64_t height, int64_t width,
                     const ImagePart& part, const ImageGeometry& geometry, T* out);

// The part that an image of this size has, where `draws` are its numbers, null without any.
ImagePart part_of_image(const ImageHeader& header, const ImageGeometry& geometry,
                        const float* draws);

}  // namespace leat
