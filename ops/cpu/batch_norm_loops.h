// The loops of BatchNormalization over one leaf of a channel's tree: a line of one channel (plain
// planes), rows of all channels (planes of one element), or positions of 16 channels (channels16).
// They compute the mean and the sum of squared deviations in two passes while the leaf is in the
// level 1 cache.
#pragma once

#include <cstdint>

namespace leat {

inline constexpr int64_t kBlockedPositions = 128;  // of a leaf in channels16

// --- moments: mean and sum of (x - mean)^2 ---
void line_moments(const float* x, int64_t n, float* mean, float* squares);
void line_moments(const double* x, int64_t n, double* mean, double* squares);
void row_moments(const float* x, int64_t rows, int64_t width, float* mean, float* squares);
void row_moments(const double* x, int64_t rows, int64_t width, double* mean, double* squares);
void blocked_moments(const float* x, int64_t positions, float* mean, float* squares);

// --- sums of dy and of dy * (x - mean) ---
void line_dots(const float* dy, const float* x, int64_t n, float mean, float* sum, float* dot);
void line_dots(const double* dy, const double* x, int64_t n, double mean, double* sum, double* dot);
void row_dots(const float* dy, const float* x, int64_t rows, int64_t width, const float* mean,
              float* sum, float* dot);
void row_dots(const double* dy, const double* x, int64_t rows, int64_t width, const double* mean,
              double* sum, double* dot);
void blocked_dots(const float* dy, const float* x, int64_t positions, const float* mean, float* sum,
                  float* dot);

// --- y = (x - mean) * factor + bias; parameters of one channel (lines), or one per channel ---
void line_scale(const float* x, int64_t n, float mean, float factor, float bias, float* y);
void line_scale(const double* x, int64_t n, double mean, double factor, double bias, double* y);
void row_scale(const float* x, int64_t width, const float* mean, const float* factor,
               const float* bias, float* y);
void row_scale(const double* x, int64_t width, const double* mean, const double* factor,
               const double* bias, double* y);
void blocked_scale(const float* x, int64_t positions, const float* mean, const float* factor,
                   const float* bias, float* y);

// --- dx = factor * (dy - shift - (x - mean) * slope) ---
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
