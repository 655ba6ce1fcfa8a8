// The places of GridSample along one axis, and the elements that each reads. CPUs and GPUs share
// them.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "devices/base/inline.h"

namespace leat {

enum class SampleMode : uint8_t { nearest, linear, cubic };
enum class SamplePadding : uint8_t { zeros, border, reflection };

struct GridSampleSpec {
  SampleMode mode = SampleMode::linear;
  SamplePadding padding = SamplePadding::zeros;
  bool align_corners = false;  // -1 and 1 are the centres of the outer elements, else their edges
};

// The elements of one axis that a coordinate reads. An index of -1 is an element outside, which is
// 0. The slope is the derivative of the weight by the coordinate.
struct AxisTaps {
  int count = 0;
  int64_t index[4] = {};
  double weight[4] = {}, slope[4] = {};
};

namespace grid_sample {

// A place along an axis, and its derivative by the coordinate that it comes from.
struct Place {
  double at, slope;
};

// Reflects a place at the borders until it lies between them.
LEAT_INLINE Place reflected(Place place, double low, double high) {
  const double range = high - low;
  if (range <= 0) return {low, 0};
  const bool below = place.at < low;
  if (!below && place.at <= high) return place;
  const double distance = below ? low - place.at : place.at - high;
  const double times = std::floor(distance / range), rest = distance - times * range;
  const bool odd = std::fmod(times, 2) != 0;
  // An even number of whole lengths ends at the border that the place crossed.
  const bool from_low = below != odd;
  return {from_low ? low + rest : high - rest,
          (below ? -1 : 1) * (from_low ? 1 : -1) * place.slope};
}

struct Borders {
  double low, high;
};
LEAT_INLINE Borders borders_of(const GridSampleSpec& spec, int64_t size) {
  const auto last = static_cast<double>(size - 1);
  return spec.align_corners ? Borders{0, last} : Borders{-0.5, last + 0.5};
}

LEAT_INLINE Place place_of(const GridSampleSpec& spec, double coordinate, int64_t size) {
  const auto length = static_cast<double>(size);
  Place place = spec.align_corners ? Place{(coordinate + 1) / 2 * (length - 1), (length - 1) / 2}
                                   : Place{((coordinate + 1) * length - 1) / 2, length / 2};
  // Places that no index can name lie outside, as a NaN does.
  constexpr double kFar = 1e9;
  if (!(std::abs(place.at) < kFar)) place = {place.at > 0 ? kFar : -kFar, 0};
  if (spec.mode == SampleMode::nearest) place = {std::nearbyint(place.at), 0};
  const Borders borders = borders_of(spec, size);
  if (place.at >= borders.low && place.at <= borders.high) return place;
  if (spec.padding == SamplePadding::border) return {std::clamp(place.at, 0.0, length - 1), 0};
  if (spec.padding == SamplePadding::reflection) return reflected(place, borders.low, borders.high);
  return place;
}

LEAT_INLINE int64_t index_of(const GridSampleSpec& spec, int64_t i, int64_t size) {
  if (i >= 0 && i < size) return i;
  if (spec.padding == SamplePadding::zeros) return -1;
  if (spec.padding == SamplePadding::border) return std::clamp<int64_t>(i, 0, size - 1);
  const Borders borders = borders_of(spec, size);
  const Place place = reflected({static_cast<double>(i), 0}, borders.low, borders.high);
  return std::clamp<int64_t>(static_cast<int64_t>(place.at), 0, size - 1);
}

// The cubic convolution of Keys with a = -0.75, and its derivative by the distance, at d in [0,2].
struct CubicTap {
  double weight, slope;
};
LEAT_INLINE CubicTap cubic_tap(double d) {
  constexpr double a = -0.75;
  if (d <= 1) return {((a + 2) * d - (a + 3)) * d * d + 1, (3 * (a + 2) * d - 2 * (a + 3)) * d};
  return {((a * d - 5 * a) * d + 8 * a) * d - 4 * a, (3 * a * d - 10 * a) * d + 8 * a};
}

}  // namespace grid_sample

// Source: ONNX's operator reference, GridSample-22, and its reference implementation.
// REQUIRES: size >= 1.
LEAT_INLINE AxisTaps axis_taps(const GridSampleSpec& spec, double coordinate, int64_t size) {
  const grid_sample::Place place = grid_sample::place_of(spec, coordinate, size);
  const double below = std::floor(place.at), rest = place.at - below;
  const auto first = static_cast<int64_t>(below);
  AxisTaps taps;
  const auto add = [&](int64_t i, double weight, double slope) {
    taps.index[taps.count] = grid_sample::index_of(spec, i, size);
    taps.weight[taps.count] = weight;
    taps.slope[taps.count++] = slope * place.slope;
  };
  if (spec.mode == SampleMode::nearest) {
    add(first, 1, 0);
  } else if (spec.mode == SampleMode::linear) {
    add(first, 1 - rest, -1);
    add(first + 1, rest, 1);
  } else {
    for (int k = -1; k <= 2; ++k) {
      const double distance = rest - k;
      const grid_sample::CubicTap c = grid_sample::cubic_tap(std::abs(distance));
      add(first + k, c.weight, distance < 0 ? -c.slope : c.slope);
    }
  }
  return taps;
}

inline constexpr int kMostSampleAxes = 3;

// Calls act(offset, weight, slopes) for each element inside that a place with these taps reads,
// with the derivatives of the weight by the place on each axis. Axis d has size[d] elements.
template <typename F>
LEAT_INLINE void each_tap(const AxisTaps* taps, int axes, const int64_t* size, F&& act) {
  int at[kMostSampleAxes] = {};
  while (true) {
    bool inside = true;
    int64_t offset = 0;
    double weight = 1, slopes[kMostSampleAxes] = {1, 1, 1};
    for (int d = 0; d < axes; ++d) {
      const int64_t index = taps[d].index[at[d]];
      inside = inside && index >= 0;
      offset = offset * size[d] + index;
      weight *= taps[d].weight[at[d]];
      for (int e = 0; e < axes; ++e)
        slopes[e] *= e == d ? taps[d].slope[at[d]] : taps[d].weight[at[d]];
    }
    if (inside) act(offset, weight, slopes);
    int d = axes - 1;
    while (d >= 0 && ++at[d] == taps[d].count) at[d--] = 0;
    if (d < 0) return;
  }
}

}  // namespace leat
