// The inner loops of resize.cc. They give the same bits with and without vector instructions.
// Private to ops/images.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ops/images/resize.h"

namespace leat {

inline constexpr int kResizePrecision = 22;  // bits behind the point in a weight
inline constexpr int kResizeLowerBits = 11;  // of them in the lower half of a weight
inline constexpr size_t kResizeSlack = 32;   // bytes that may be read and written behind a row

// One row, to `width` pixels. REQUIRES: kResizeSlack bytes behind the row may be read, and as many
// behind `out` be written.
void resize_row(const uint8_t* in, int64_t channels, const ResizeWeights& weights, int64_t width,
                uint8_t* out);
// Row `y` of the result: the mean of rows of the image, of which `bytes` bytes each count.
void resize_column(const ImageView& image, const ResizeWeights& weights, int64_t y, int64_t bytes,
                   uint8_t* out);
// One row of pixels to the planes of its channels, which are `plane` bytes apart.
void split_row(const uint8_t* in, int64_t width, int64_t channels, bool mirrored, uint8_t* out,
               int64_t plane);

// The same without vector instructions, for tests and for other machines.
void resize_row_portable(const uint8_t* in, int64_t channels, const ResizeWeights& weights,
                         int64_t width, uint8_t* out);
void resize_column_portable(const ImageView& image, const ResizeWeights& weights, int64_t y,
                            int64_t bytes, uint8_t* out, int64_t from);

}  // namespace leat
