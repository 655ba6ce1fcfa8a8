#include "ops/cpu/image_steps.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <numbers>

#include "ops/cpu/vectorize.h"

namespace leat {
namespace {

template <typename T>
LEAT_INLINE T in_unit(T x) {
  return x < T{0} ? T{0} : (x > T{1} ? T{1} : x);
}

template <typename T>
LEAT_INLINE T gray_of(T red, T green, T blue) {
  return T(0.2989) * red + T(0.587) * green + T(0.114) * blue;
}

// x = factor * x + rest, where rest is (1 - factor) times what x is blended with.
template <typename T>
LEAT_INLINE void blend_line(T factor, T rest, T* x, int64_t n) {
  for (int64_t i = 0; i < n; ++i) x[i] = in_unit(factor * x[i] + rest);
}
LEAT_VECTOR_CLONES void blend(float factor, float rest, float* x, int64_t n) {
  blend_line(factor, rest, x, n);
}
void blend(double factor, double rest, double* x, int64_t n) { blend_line(factor, rest, x, n); }

template <typename T>
LEAT_INLINE void saturate_planes(T factor, T* red, T* green, T* blue, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    const T rest = (T{1} - factor) * gray_of(red[i], green[i], blue[i]);
    red[i] = in_unit(factor * red[i] + rest);
    green[i] = in_unit(factor * green[i] + rest);
    blue[i] = in_unit(factor * blue[i] + rest);
  }
}
LEAT_VECTOR_CLONES void saturate(float factor, float* red, float* green, float* blue, int64_t n) {
  saturate_planes(factor, red, green, blue, n);
}
void saturate(double factor, double* red, double* green, double* blue, int64_t n) {
  saturate_planes(factor, red, green, blue, n);
}

// The hue of a colour in [0,1), as torchvision's _rgb_to_hsv; red, green and blue are sixths of a
// turn 0, 2 and 4. All cases are computed before one is chosen, here and below, so that the
// compiler can do so for several colours at once.
template <typename T>
LEAT_INLINE T hue_of(T red, T green, T blue, T most, T least) {
  const T range = most - least, divisor = most == least ? T{1} : range;
  const T r = (most - red) / divisor, g = (most - green) / divisor, b = (most - blue) / divisor;
  const T of_red = b - g, of_green = T{2} + r - b, of_blue = T{4} + g - r;
  const T of_others = most == green ? of_green : of_blue;
  const T sixths = most == red ? of_red : of_others;
  const T hue = sixths / T{6} + T{1};
  return hue - (hue >= T{1} ? T{1} : T{0});
}

// Turns the hue. In sixth k of a turn, the channels are picked from v, p, q and t, as HSV has it.
template <typename T>
LEAT_INLINE void turn_planes(T turn, T* red, T* green, T* blue, int64_t n) {
  LEAT_NO_OVERLAP
  for (int64_t i = 0; i < n; ++i) {
    const T r = red[i], g = green[i], b = blue[i];
    const T larger = r > g ? r : g, v = larger > b ? larger : b;
    const T smaller = r < g ? r : g, least = smaller < b ? smaller : b;
    const T turned = hue_of(r, g, b, v, least) + turn;
    const T saturation = (v - least) / (v == least ? T{1} : v);
    const T sixths = (turned - std::floor(turned)) * T{6}, k = std::floor(sixths);
    const T part = sixths - k;
    const T p = in_unit((T{1} - saturation) * v);
    const T q = in_unit((T{1} - saturation * part) * v);
    const T t = in_unit((T{1} - saturation + saturation * part) * v);
    // Each bound is one of a sixth; rounding may give 6, which is 0 again.
    const bool in_0 = k < T{1} || k >= T{6}, to_1 = k < T{2}, to_2 = k < T{3}, to_3 = k < T{4},
               to_4 = k < T{5};
    const T red_34 = to_3 ? p : (to_4 ? t : v), red_12 = to_1 ? q : (to_2 ? p : red_34);
    const T green_34 = to_3 ? q : p, green_12 = to_2 ? v : green_34;
    const T blue_34 = to_4 ? v : q, blue_12 = to_1 ? p : (to_2 ? t : blue_34);
    red[i] = in_0 ? v : red_12;
    green[i] = in_0 ? t : green_12;
    blue[i] = in_0 ? p : blue_12;
  }
}
LEAT_VECTOR_CLONES void turn_hue(float turn, float* red, float* green, float* blue, int64_t n) {
  turn_planes(turn, red, green, blue, n);
}
void turn_hue(double turn, double* red, double* green, double* blue, int64_t n) {
  turn_planes(turn, red, green, blue, n);
}

// The mean of gray, line by line in double.
template <typename T>
T mean_gray(const ImageSize& size, const T* x) {
  const int64_t plane = size.plane();
  double sum = 0;
  for (int64_t y = 0; y < size.height; ++y) {
    double line = 0;
    for (int64_t i = y * size.width; i < (y + 1) * size.width; ++i)
      line += static_cast<double>(size.channels == 3 ? gray_of(x[i], x[plane + i], x[2 * plane + i])
                                                     : x[i]);
    sum += line;
  }
  return static_cast<T>(sum / static_cast<double>(plane));
}

// Blends with a blur of 3 by 3 elements, of which the one in the middle counts five times.
template <typename T>
LEAT_INLINE void sharpen_line(T factor, const T* above, const T* here, const T* below, T* out,
                              int64_t n) {
  const T one = T(1.0 / 13.0), five = T(5.0 / 13.0);
  LEAT_NO_OVERLAP
  for (int64_t i = 0; i < n; ++i) {
    const T sides = above[i] + above[i + 1] + above[i + 2] + here[i] + here[i + 2] + below[i] +
                    below[i + 1] + below[i + 2];
    const T blurred = one * sides + five * here[i + 1];
    out[i] = here[i + 1] + (T{1} - factor) * (blurred - here[i + 1]);
  }
}
LEAT_VECTOR_CLONES void sharpen_row(float factor, const float* above, const float* here,
                                    const float* below, float* out, int64_t n) {
  sharpen_line(factor, above, here, below, out, n);
}
void sharpen_row(double factor, const double* above, const double* here, const double* below,
                 double* out, int64_t n) {
  sharpen_line(factor, above, here, below, out, n);
}

template <typename T>
void sharpen(T factor, const ImageSize& size, T* image, T* spare) {
  if (size.height <= 2 || size.width <= 2) return;
  std::copy_n(image, size.elements(), spare);
  const int64_t w = size.width;
  for (int64_t c = 0; c < size.channels; ++c) {
    for (int64_t y = 1; y + 1 < size.height; ++y) {
      const T* const here = spare + c * size.plane() + y * w;
      T* const to = image + c * size.plane() + y * w + 1;
      sharpen_row(factor, here - w, here, here + w, to, w - 2);
    }
  }
  blend(T{1}, T{0}, image, size.elements());  // into [0,1]
}

template <typename T>
LEAT_INLINE void keep_levels(T levels, T* x, int64_t n) {
  const T most = levels - T{1}, unit = T{1} / levels;
  for (int64_t i = 0; i < n; ++i) {
    const T level = std::floor(x[i] * levels);
    x[i] = (level < T{0} ? T{0} : (level > most ? most : level)) * unit;
  }
}
LEAT_VECTOR_CLONES void posterize(float levels, float* x, int64_t n) { keep_levels(levels, x, n); }
void posterize(double levels, double* x, int64_t n) { keep_levels(levels, x, n); }

template <typename T>
LEAT_INLINE void invert_bright(T from, T* x, int64_t n) {
  for (int64_t i = 0; i < n; ++i) x[i] = x[i] >= from ? T{1} - x[i] : x[i];
}
LEAT_VECTOR_CLONES void solarize(float from, float* x, int64_t n) { invert_bright(from, x, n); }
void solarize(double from, double* x, int64_t n) { invert_bright(from, x, n); }

template <typename T>
void stretch(int64_t n, T* x) {
  const auto [least, most] = std::minmax_element(x, x + n);
  if (*least == *most) return blend(T{1}, T{0}, x, n);
  const T low = *least, range = *most - low;
  for (int64_t i = 0; i < n; ++i) x[i] = in_unit((x[i] - low) / range);
}

// As torchvision and Pillow: the colours are 8-bit numbers, and those of the brightest level that
// occurs do not count in the step.
template <typename T>
void equalize(int64_t n, T* x) {
  const auto level = [](T v) -> size_t {
    const T scaled = v * static_cast<T>(256.0 - 1e-3);
    if (!(scaled > T{0})) return 0;
    return scaled < T{255} ? static_cast<size_t>(scaled) : 255;
  };
  std::array<int64_t, 256> count{};
  for (int64_t i = 0; i < n; ++i) ++count[level(x[i])];
  size_t brightest = 255;
  while (brightest > 0 && count[brightest] == 0) --brightest;
  const int64_t step = (n - count[brightest]) / 255;
  std::array<T, 256> table;
  int64_t below = 0;
  for (size_t k = 0; k < table.size(); ++k) {
    const int64_t made =
        step == 0 ? static_cast<int64_t>(k) : std::min<int64_t>((below + step / 2) / step, 255);
    table[k] = static_cast<T>(made) / T{255};
    below += count[k];
  }
  for (int64_t i = 0; i < n; ++i) x[i] = table[level(x[i])];
}

// The place in the image that an element of the result is taken from: (x, y) times a matrix, where
// (0, 0) is the corner of the image.
struct Affine {
  double xx = 1, xy = 0, x0 = 0;
  double yx = 0, yy = 1, y0 = 0;
};

Affine affine_of(ImageStep step, double value, const ImageSize& size) {
  Affine a;
  switch (step) {
    case ImageStep::shear_x:
      a.xy = value;
      break;
    case ImageStep::shear_y:
      a.yx = value;
      break;
    case ImageStep::translate_x:
      a.x0 = -std::trunc(value);
      break;
    case ImageStep::translate_y:
      a.y0 = -std::trunc(value);
      break;
    default: {
      const double angle = value * std::numbers::pi / 180;
      const double cosine = std::cos(angle), sine = std::sin(angle);
      const double cx = static_cast<double>(size.width) / 2,
                   cy = static_cast<double>(size.height) / 2;
      a = {cosine, -sine, cx - cosine * cx + sine * cy, sine, cosine, cy - sine * cx - cosine * cy};
    }
  }
  return a;
}

template <typename T>
void move(const Affine& a, const ImageSize& size, T* image, T* spare) {
  std::copy_n(image, size.elements(), spare);
  const int64_t plane = size.plane();
  for (int64_t y = 0; y < size.height; ++y) {
    for (int64_t x = 0; x < size.width; ++x) {
      const double px = static_cast<double>(x) + 0.5, py = static_cast<double>(y) + 0.5;
      const double from_x = std::nearbyint(a.xx * px + a.xy * py + a.x0 - 0.5),
                   from_y = std::nearbyint(a.yx * px + a.yy * py + a.y0 - 0.5);
      const bool inside = from_x >= 0 && from_x < static_cast<double>(size.width) && from_y >= 0 &&
                          from_y < static_cast<double>(size.height);
      const int64_t to = y * size.width + x;
      const int64_t from =
          inside ? static_cast<int64_t>(from_y) * size.width + static_cast<int64_t>(from_x) : 0;
      for (int64_t c = 0; c < size.channels; ++c)
        image[c * plane + to] = inside ? spare[c * plane + from] : T{0};
    }
  }
}

// A blend with the factor 1, and a hue that is not turned, leave the image as it is.
bool changes_nothing(ImageStep step, double value) {
  switch (step) {
    case ImageStep::brightness:
    case ImageStep::contrast:
    case ImageStep::saturation:
    case ImageStep::sharpness:
      return value == 1;
    case ImageStep::hue:
      return value == 0;
    default:
      return false;
  }
}

template <typename T>
void run_step(ImageStep step, double value, const ImageSize& size, T* image, T* spare) {
  const int64_t plane = size.plane(), all = size.elements();
  const bool colours = size.channels == 3;
  const T v = static_cast<T>(value);
  if (all == 0 || changes_nothing(step, value)) return;
  switch (step) {
    case ImageStep::none:
      return;
    case ImageStep::brightness:
      return blend(v, T{0}, image, all);
    case ImageStep::contrast:
      return blend(v, (T{1} - v) * mean_gray(size, image), image, all);
    case ImageStep::saturation:
      if (colours) saturate(v, image, image + plane, image + 2 * plane, plane);
      return;
    case ImageStep::hue:
      if (colours) turn_hue(v, image, image + plane, image + 2 * plane, plane);
      return;
    case ImageStep::sharpness:
      return sharpen(v, size, image, spare);
    case ImageStep::posterize:
      return posterize(static_cast<T>(std::exp2(std::clamp(std::round(value), 0.0, 8.0))), image,
                       all);
    case ImageStep::solarize:
      return solarize(v, image, all);
    case ImageStep::auto_contrast:
      for (int64_t c = 0; c < size.channels; ++c) stretch(plane, image + c * plane);
      return;
    case ImageStep::equalize:
      for (int64_t c = 0; c < size.channels; ++c) equalize(plane, image + c * plane);
      return;
    case ImageStep::shear_x:
    case ImageStep::shear_y:
    case ImageStep::translate_x:
    case ImageStep::translate_y:
    case ImageStep::rotate:
      return move(affine_of(step, value, size), size, image, spare);
  }
}

}  // namespace

void run_image_step(ImageStep step, double value, const ImageSize& size, float* image,
                    float* spare) {
  run_step(step, value, size, image, spare);
}
void run_image_step(ImageStep step, double value, const ImageSize& size, double* image,
                    double* spare) {
  run_step(step, value, size, image, spare);
}

}  // namespace leat
