// The loops of BatchNormalization over one leaf of a channel's tree. batch_norm_kernel.cc cuts the
// batch into leaves, calls these functions, and merges the results of the leaves in double. A leaf
// has one of three forms, and each function has a variant for each of them:
//
//   line_     a line of n elements of one channel (plain planes)
//   row_      a matrix [rows, width] with one column for each channel (planes of one element)
//   blocked_  a matrix [positions, 16] of 16 channels (the layout channels16; not f64)
//
// Results and parameters are one value for lines, `width` values for rows, and 16 for blocks. The
// functions compute the mean and the sum of squared deviations in two passes while the leaf is in
// the level 1 cache.
//
// Sums: a line has the order of fold_line() in tree_sum.h. A column of rows is added in the order
// of the rows. A channel of a block has four partial sums (position p goes to sum p % 4), which are
// added as (0 + 1) + (2 + 3). All variants for float are compiled for each vector width, with equal
// bits.
//
// Threads: any. Arrays are contiguous and may be unaligned. f16 and bf16 are converted to float by
// the caller.
#pragma once

#include <cstdint>

namespace leat {

// The most positions of a leaf in channels16: 128 x 16 floats are 8 KiB. The functions accept more,
// but the number is part of the results, because it decides the tree.
inline constexpr int64_t kBlockedPositions = 128;  // of a leaf in channels16

// Moments: the mean, and `squares`, the sum of (x - mean)^2, which is not divided by the count.
// REQUIRES: 1 <= n <= kLineBlock for lines (their deviations are buffered on the stack); rows >= 1,
// positions >= 1.
void line_moments(const float* x, int64_t n, float* mean, float* squares);
void line_moments(const double* x, int64_t n, double* mean, double* squares);
void row_moments(const float* x, int64_t rows, int64_t width, float* mean, float* squares);
void row_moments(const double* x, int64_t rows, int64_t width, double* mean, double* squares);
void blocked_moments(const float* x, int64_t positions, float* mean, float* squares);

// The sums of the gradient: `sum` is the sum of dy, and `dot` that of dy * (x - mean). The mean is
// that of the whole channel, not of the leaf. x and dy have the same form. REQUIRES: n <=
// kLineBlock for lines.
void line_dots(const float* dy, const float* x, int64_t n, float mean, float* sum, float* dot);
void line_dots(const double* dy, const double* x, int64_t n, double mean, double* sum, double* dot);
void row_dots(const float* dy, const float* x, int64_t rows, int64_t width, const float* mean,
              float* sum, float* dot);
void row_dots(const double* dy, const double* x, int64_t rows, int64_t width, const double* mean,
              double* sum, double* dot);
void blocked_dots(const float* dy, const float* x, int64_t positions, const float* mean, float* sum,
                  float* dot);

// y = (x - mean) * factor + bias; parameters of one channel (lines), or one per channel. Lines may
// have any length. The variant for rows computes one row, so a caller loops over the rows. y may be
// x.
void line_scale(const float* x, int64_t n, float mean, float factor, float bias, float* y);
void line_scale(const double* x, int64_t n, double mean, double factor, double bias, double* y);
void row_scale(const float* x, int64_t width, const float* mean, const float* factor,
               const float* bias, float* y);
void row_scale(const double* x, int64_t width, const double* mean, const double* factor,
               const double* bias, double* y);
void blocked_scale(const float* x, int64_t positions, const float* mean, const float* factor,
                   const float* bias, float* y);

// dx = factor * (dy - shift - (x - mean) * slope), in the same forms as the scale. The caller
// computes the parameters from the sums above: shift is the mean of dy, and slope includes the
// variance. dx may be x or dy.
void line_back(const float* dy, const float* x, int64_t n, float mean, float factor, float shift,
               float slope, float* dx);
void line_back(const double* dy, const double* x, int64_t n, double mean, double factor,
               double shift, double slope, double* dx);
void row_back(const float* dy, const float* x, int64_t width, const float* mean,
              const float* factor, const float* shift, const float* slope, float* dx);
void row_back(const double* dy, const double* x, int64_t width, const double* mean,
              const double* factor, const double* shift, const double* slope, double* dx);
void blocked_back(const float* dy, const float* x, int64_t positions, const float* mean,
                  const float* factor, const float* shift, const float* slope, float* dx);

}  // namespace leat
