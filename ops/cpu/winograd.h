// The loops of Winograd's F(4x4,3x3) for AVX-512 (Lavin and Gray, "Fast Algorithms for
// Convolutional Neural Networks"). A tile of 4x4 outputs of a 3x3 convolution is computed at 36
// points: the 6x6 inputs below it and the weights are transformed to the points, the products at
// each point are summed over channels, and the sums are transformed to the outputs.
//
// In one dimension the points are 0, 3/4, -3/4, 3/2, -3/2 and infinity, in this order: the largest
// error is a third of that with 0, 1, -1, 2 and -2, and all constants except those of the weights
// are exact. Planes are the 36 points in row-major order. The results of a tile depend on its own
// inputs alone.
//
// Threads: any. REQUIRES: available().
#pragma once

#include <cstdint>

namespace leat::winograd {

inline constexpr int kPoints = 36, kTile = 4, kPatch = 6, kKernel = 3;
inline constexpr int kLanes = 16;  // channels that are transformed together

// True if this processor has the instructions of the functions below.
bool available();

// The addresses of 16 channels of an image: element (row, column) of channel i is at (row * width +
// column) * pixel + i * channel. Blocked: pixel 16, channel 1; plain: 1, the area.
struct Plane {
  int64_t height = 0, width = 0;
  int64_t pixel = 0, channel = 0;

  int64_t block() const { return height * width * kLanes; }  // floats from 16 channels to the next
};

// One tile at the 36 points, for `blocks` contiguous blocks of 16 channels: each multiple of
// `points` floats has 16 floats for each block, next to each other.
//
// transform_patch() reads the patch of 6x6 inputs whose first one is at (row, column). Parts of it
// may be outside of `x` and count as zero.
void transform_patch(const float* x, const Plane& plane, int64_t blocks, int64_t row,
                     int64_t column, float* to, int64_t points);
// Transforms sums of products to the tile of outputs at (row, column), as far as it is inside of
// `y`. `bias`: one value per channel, or null.
void transform_outputs(const float* from, int64_t points, float* y, const Plane& plane,
                       int64_t blocks, int64_t row, int64_t column, const float* bias, bool relu);
// Transforms 16 kernels: element (i, j) of the n-th is at w[n * kernel + 3 * i + j], or, rotated by
// half a turn, at 8 - (3 * i + j).
void transform_kernels(const float* w, int64_t kernel, bool rotated, float* to, int64_t points);

// For gradients of weights: transforms the tile of 4x4 gradients of outputs at (row, column), which
// are zero outside. It adds their sums to `bias` (one value per channel, or null).
void transform_gradients(const float* dy, const Plane& plane, int64_t blocks, int64_t row,
                         int64_t column, float* to, int64_t points, float* bias);
// Transforms sums of products to the 9 weights: 16 floats for each.
void transform_weights(const float* from, int64_t points, float* dw);

// c[m, n] = sum over k of a[m, k] * b[k, n], in the order of k, at `rows` x `columns`; added to c
// if `add`. Strides count floats; those that are not members are 1. `columns` is a multiple of 16.
// The product also prefetches the depth * columns floats at `next`, which a later call reads: this
// saves a quarter of the time if the weights are larger than the level 2 cache.
struct Product {
  int64_t rows = 0, columns = 0, depth = 0;
  int64_t a_row = 0, a_depth = 0;
  int64_t b_depth = 0;
  int64_t c_row = 0;
  bool add = false;
};
void multiply(const Product& p, const float* a, const float* b, const float* next, float* c);

}  // namespace leat::winograd
