// GridSample: a value read at places between its elements. X is [N,C,sizes...] with one to three
// sizes, the grid [N,places...,sizes]; a place has its coordinates from the last axis to the first,
// from -1 to 1.
//
// Source: ONNX's operator reference, GridSample-22, and its reference implementation.
#pragma once

#include <cstdint>

#include "devices/base/status.h"
#include "ops/graph/attrs.h"

namespace leat {

enum class SampleMode : uint8_t { nearest, linear, cubic };
enum class SamplePadding : uint8_t { zeros, border, reflection };

struct GridSampleSpec {
  SampleMode mode = SampleMode::linear;
  SamplePadding padding = SamplePadding::zeros;
  bool align_corners = false;  // -1 and 1 are the centres of the outer elements, else their edges
};
// The message of an error has no subject.
Result<GridSampleSpec> grid_sample_spec(const Attrs& attrs);

// The elements of one axis that a coordinate reads. An index of -1 is an element outside, which is
// 0. The slope is the derivative of the weight by the coordinate.
struct AxisTaps {
  int count = 0;
  int64_t index[4] = {};
  double weight[4] = {}, slope[4] = {};
};
// REQUIRES: size >= 1.
AxisTaps axis_taps(const GridSampleSpec& spec, double coordinate, int64_t size);

}  // namespace leat
