#include "ops/cpu/batch_norm_loops.h"

#include <cstring>

#include "ops/cpu/vectorize.h"
#include "ops/elements/tree_sum.h"

namespace leat {
namespace {

// One value for each of 16 channels. These are plain arrays: vector types would be cut to the
// baseline's width before a function is cloned.
struct Channels {
  float v[16] = {};
  LEAT_INLINE void load(const float* from) { std::memcpy(v, from, sizeof v); }
  LEAT_INLINE void store(float* to) const { std::memcpy(to, v, sizeof v); }
};
// Stores (a0 + a1) + (a2 + a3), channel by channel.
LEAT_INLINE void store_sum(const Channels (&a)[4], float* to) {
  for (int j = 0; j < 16; ++j) to[j] = (a[0].v[j] + a[1].v[j]) + (a[2].v[j] + a[3].v[j]);
}

// Calls f(position, accumulator): position p goes to accumulator p % 4. Four accumulators are
// independent chains of additions, which hide the latency of one addition.
template <typename F>
LEAT_INLINE void each_position(int64_t positions, F&& f) {
  int64_t p = 0;
  for (; p + 4 <= positions; p += 4) {
    f(p, 0);
    f(p + 1, 1);
    f(p + 2, 2);
    f(p + 3, 3);
  }
  for (; p < positions; ++p) f(p, static_cast<int>(p % 4));
}

// REQUIRES, for the functions of lines: n <= kLineBlock, the size of the buffers on the stack. Two
// passes lose fewer digits than sum(x^2) - n * mean^2, which cancels if the mean is large.
template <typename T>
LEAT_INLINE void moments_of_line(const T* x, int64_t n, T* mean, T* squares) {
  *mean = fold_line<SumFold, AsIs>(x, n) / static_cast<T>(n);
  const T middle = *mean;
  T deviations[kLineBlock];
  LEAT_NO_OVERLAP
  for (int64_t i = 0; i < n; ++i) deviations[i] = x[i] - middle;
  *squares = fold_line<SumFold, Squared>(deviations, n);
}

// x is [rows, width]. Each channel adds its rows in their order, so the vector width cannot change
// a bit.
template <typename T>
LEAT_INLINE void moments_of_rows(const T* x, int64_t rows, int64_t width, T* mean, T* squares) {
  for (int64_t j = 0; j < width; ++j) mean[j] = squares[j] = 0;
  for (int64_t r = 0; r < rows; ++r) {
    LEAT_NO_OVERLAP
    for (int64_t j = 0; j < width; ++j) mean[j] = mean[j] + x[r * width + j];
  }
  for (int64_t j = 0; j < width; ++j) mean[j] = mean[j] / static_cast<T>(rows);
  for (int64_t r = 0; r < rows; ++r) {
    LEAT_NO_OVERLAP
    for (int64_t j = 0; j < width; ++j) {
      const T deviation = x[r * width + j] - mean[j];
      squares[j] = squares[j] + deviation * deviation;
    }
  }
}

// The sums of dy and of dy * (x - mean) of one channel; both have the tree of fold_line().
template <typename T>
LEAT_INLINE void dots_of_line(const T* dy, const T* x, int64_t n, T mean, T* sum, T* dot) {
  T products[kLineBlock];
  LEAT_NO_OVERLAP
  for (int64_t i = 0; i < n; ++i) products[i] = dy[i] * (x[i] - mean);
  *sum = fold_line<SumFold, AsIs>(dy, n);
  *dot = fold_line<SumFold, AsIs>(products, n);
}

// The same sums for [rows, width], each channel in the order of the rows.
template <typename T>
LEAT_INLINE void dots_of_rows(const T* dy, const T* x, int64_t rows, int64_t width, const T* mean,
                              T* sum, T* dot) {
  for (int64_t j = 0; j < width; ++j) sum[j] = dot[j] = 0;
  for (int64_t r = 0; r < rows; ++r) {
    LEAT_NO_OVERLAP
    for (int64_t j = 0; j < width; ++j) {
      const T g = dy[r * width + j];
      sum[j] = sum[j] + g;
      dot[j] = dot[j] + g * (x[r * width + j] - mean[j]);
    }
  }
}

template <typename T>
LEAT_INLINE void scale_line(const T* x, int64_t n, T mean, T factor, T bias, T* y) {
  LEAT_NO_OVERLAP
  for (int64_t i = 0; i < n; ++i) y[i] = (x[i] - mean) * factor + bias;
}
template <typename T>
LEAT_INLINE void scale_row(const T* x, int64_t width, const T* mean, const T* factor, const T* bias,
                           T* y) {
  LEAT_NO_OVERLAP
  for (int64_t j = 0; j < width; ++j) y[j] = (x[j] - mean[j]) * factor[j] + bias[j];
}
template <typename T>
LEAT_INLINE void back_line(const T* dy, const T* x, int64_t n, T mean, T factor, T shift, T slope,
                           T* dx) {
  LEAT_NO_OVERLAP
  for (int64_t i = 0; i < n; ++i) dx[i] = factor * (dy[i] - shift - (x[i] - mean) * slope);
}
template <typename T>
LEAT_INLINE void back_row(const T* dy, const T* x, int64_t width, const T* mean, const T* factor,
                          const T* shift, const T* slope, T* dx) {
  LEAT_NO_OVERLAP
  for (int64_t j = 0; j < width; ++j)
    dx[j] = factor[j] * (dy[j] - shift[j] - (x[j] - mean[j]) * slope[j]);
}

}  // namespace

LEAT_VECTOR_CLONES void line_moments(const float* x, int64_t n, float* mean, float* squares) {
  moments_of_line(x, n, mean, squares);
}
void line_moments(const double* x, int64_t n, double* mean, double* squares) {
  moments_of_line(x, n, mean, squares);
}
LEAT_VECTOR_CLONES void row_moments(const float* x, int64_t rows, int64_t width, float* mean,
                                    float* squares) {
  moments_of_rows(x, rows, width, mean, squares);
}
void row_moments(const double* x, int64_t rows, int64_t width, double* mean, double* squares) {
  moments_of_rows(x, rows, width, mean, squares);
}

// x is [positions, 16]. The second pass finds the leaf in the level 1 cache, because a leaf has at
// most kBlockedPositions positions (8 KiB).
LEAT_VECTOR_CLONES void blocked_moments(const float* x, int64_t positions, float* mean,
                                        float* squares) {
  Channels sums[4], parts[4], middle;
  each_position(positions, [&](int64_t p, int lane) {
    for (int j = 0; j < 16; ++j) sums[lane].v[j] += x[p * 16 + j];
  });
  store_sum(sums, middle.v);
  for (int j = 0; j < 16; ++j) middle.v[j] /= static_cast<float>(positions);
  each_position(positions, [&](int64_t p, int lane) {
    for (int j = 0; j < 16; ++j) {
      const float deviation = x[p * 16 + j] - middle.v[j];
      parts[lane].v[j] += deviation * deviation;
    }
  });
  middle.store(mean);
  store_sum(parts, squares);
}

LEAT_VECTOR_CLONES void line_dots(const float* dy, const float* x, int64_t n, float mean,
                                  float* sum, float* dot) {
  dots_of_line(dy, x, n, mean, sum, dot);
}
void line_dots(const double* dy, const double* x, int64_t n, double mean, double* sum,
               double* dot) {
  dots_of_line(dy, x, n, mean, sum, dot);
}
LEAT_VECTOR_CLONES void row_dots(const float* dy, const float* x, int64_t rows, int64_t width,
                                 const float* mean, float* sum, float* dot) {
  dots_of_rows(dy, x, rows, width, mean, sum, dot);
}
void row_dots(const double* dy, const double* x, int64_t rows, int64_t width, const double* mean,
              double* sum, double* dot) {
  dots_of_rows(dy, x, rows, width, mean, sum, dot);
}
LEAT_VECTOR_CLONES void blocked_dots(const float* dy, const float* x, int64_t positions,
                                     const float* mean, float* sum, float* dot) {
  Channels sums[4], dots[4], middle;
  middle.load(mean);
  each_position(positions, [&](int64_t p, int lane) {
    for (int j = 0; j < 16; ++j) {
      const float g = dy[p * 16 + j];
      sums[lane].v[j] += g;
      dots[lane].v[j] += g * (x[p * 16 + j] - middle.v[j]);
    }
  });
  store_sum(sums, sum);
  store_sum(dots, dot);
}

LEAT_VECTOR_CLONES void line_scale(const float* x, int64_t n, float mean, float factor, float bias,
                                   float* y) {
  scale_line(x, n, mean, factor, bias, y);
}
void line_scale(const double* x, int64_t n, double mean, double factor, double bias, double* y) {
  scale_line(x, n, mean, factor, bias, y);
}
LEAT_VECTOR_CLONES void row_scale(const float* x, int64_t width, const float* mean,
                                  const float* factor, const float* bias, float* y) {
  scale_row(x, width, mean, factor, bias, y);
}
void row_scale(const double* x, int64_t width, const double* mean, const double* factor,
               const double* bias, double* y) {
  scale_row(x, width, mean, factor, bias, y);
}
// The three parameters are loaded once, and stay in registers for all positions.
LEAT_VECTOR_CLONES void blocked_scale(const float* x, int64_t positions, const float* mean,
                                      const float* factor, const float* bias, float* y) {
  Channels m, f, b;
  m.load(mean);
  f.load(factor);
  b.load(bias);
  for (int64_t p = 0; p < positions; ++p) {
    Channels v;
    v.load(x + p * 16);
    for (int j = 0; j < 16; ++j) v.v[j] = (v.v[j] - m.v[j]) * f.v[j] + b.v[j];
    v.store(y + p * 16);
  }
}

LEAT_VECTOR_CLONES void line_back(const float* dy, const float* x, int64_t n, float mean,
                                  float factor, float shift, float slope, float* dx) {
  back_line(dy, x, n, mean, factor, shift, slope, dx);
}
void line_back(const double* dy, const double* x, int64_t n, double mean, double factor,
               double shift, double slope, double* dx) {
  back_line(dy, x, n, mean, factor, shift, slope, dx);
}
LEAT_VECTOR_CLONES void row_back(const float* dy, const float* x, int64_t width, const float* mean,
                                 const float* factor, const float* shift, const float* slope,
                                 float* dx) {
  back_row(dy, x, width, mean, factor, shift, slope, dx);
}
void row_back(const double* dy, const double* x, int64_t width, const double* mean,
              const double* factor, const double* shift, const double* slope, double* dx) {
  back_row(dy, x, width, mean, factor, shift, slope, dx);
}
LEAT_VECTOR_CLONES void blocked_back(const float* dy, const float* x, int64_t positions,
                                     const float* mean, const float* factor, const float* shift,
                                     const float* slope, float* dx) {
  Channels m, f, s, k;
  m.load(mean);
  f.load(factor);
  s.load(shift);
  k.load(slope);
  for (int64_t p = 0; p < positions; ++p) {
    Channels g, v;
    g.load(dy + p * 16);
    v.load(x + p * 16);
    for (int j = 0; j < 16; ++j) g.v[j] = f.v[j] * (g.v[j] - s.v[j] - (v.v[j] - m.v[j]) * k.v[j]);
    g.store(dx + p * 16);
  }
}

}  // namespace leat
