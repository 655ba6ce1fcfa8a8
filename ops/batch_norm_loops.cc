#include "ops/batch_norm_loops.h"

#include "ops/tree_sum.h"
#include "ops/vectorize.h"

namespace leat {
namespace {

typedef float V16 __attribute__((vector_size(64)));

LEAT_INLINE void load16(V16& v, const float* from) { std::memcpy(&v, from, sizeof v); }
LEAT_INLINE void store16(float* to, const V16& v) { std::memcpy(to, &v, sizeof v); }

template <typename T>
LEAT_INLINE void moments_of_line(const T* x, int64_t n, T* mean, T* squares) {
  *mean = fold_line<SumFold, AsIs>(x, n) / static_cast<T>(n);
  const T middle = *mean;
  T deviations[kLineBlock];
  LEAT_NO_OVERLAP
  for (int64_t i = 0; i < n; ++i) deviations[i] = x[i] - middle;
  *squares = fold_line<SumFold, Squared>(deviations, n);
}

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

template <typename T>
LEAT_INLINE void dots_of_line(const T* dy, const T* x, int64_t n, T mean, T* sum, T* dot) {
  T products[kLineBlock];
  LEAT_NO_OVERLAP
  for (int64_t i = 0; i < n; ++i) products[i] = dy[i] * (x[i] - mean);
  *sum = fold_line<SumFold, AsIs>(dy, n);
  *dot = fold_line<SumFold, AsIs>(products, n);
}

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

// Position p goes to accumulator p % 4; these are added in order.
LEAT_VECTOR_CLONES void blocked_moments(const float* x, int64_t positions, float* mean,
                                        float* squares) {
  V16 sums[4] = {}, v;
  for (int64_t p = 0; p < positions; ++p) {
    load16(v, x + p * 16);
    sums[p % 4] += v;
  }
  const V16 middle = ((sums[0] + sums[1]) + (sums[2] + sums[3])) / static_cast<float>(positions);
  V16 parts[4] = {};
  for (int64_t p = 0; p < positions; ++p) {
    load16(v, x + p * 16);
    v -= middle;
    parts[p % 4] += v * v;
  }
  store16(mean, middle);
  store16(squares, (parts[0] + parts[1]) + (parts[2] + parts[3]));
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
  V16 sums[4] = {}, dots[4] = {}, middle, g, v;
  load16(middle, mean);
  for (int64_t p = 0; p < positions; ++p) {
    load16(g, dy + p * 16);
    load16(v, x + p * 16);
    sums[p % 4] += g;
    dots[p % 4] += g * (v - middle);
  }
  store16(sum, (sums[0] + sums[1]) + (sums[2] + sums[3]));
  store16(dot, (dots[0] + dots[1]) + (dots[2] + dots[3]));
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
LEAT_VECTOR_CLONES void blocked_scale(const float* x, int64_t positions, const float* mean,
                                      const float* factor, const float* bias, float* y) {
  V16 m, f, b, v;
  load16(m, mean);
  load16(f, factor);
  load16(b, bias);
  for (int64_t p = 0; p < positions; ++p) {
    load16(v, x + p * 16);
    store16(y + p * 16, (v - m) * f + b);
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
  V16 m, f, s, k, g, v;
  load16(m, mean);
  load16(f, factor);
  load16(s, shift);
  load16(k, slope);
  for (int64_t p = 0; p < positions; ++p) {
    load16(g, dy + p * 16);
    load16(v, x + p * 16);
    store16(dx + p * 16, f * (g - s - (v - m) * k));
  }
}

}  // namespace leat
