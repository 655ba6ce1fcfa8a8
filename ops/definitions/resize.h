// Resize: the sizes of its output, and the weights with which each element of an axis is made from
// elements of the input.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "devices/base/shape.h"
#include "devices/base/status.h"
#include "ops/graph/attrs.h"

namespace leat {

enum class ResizeMode : uint8_t { nearest, linear, cubic };

// One axis that changes.
struct ResizedAxis {
  int axis = 0;
  int64_t in = 0, out = 0;
  double scale = 1;           // as the node gives it; out / in if it gives sizes
  double start = 0, end = 1;  // of the region of interest, relative to `in`
};

// The attributes and operands of a Resize whose values are known.
struct ResizeSpec {
  ResizeMode mode = ResizeMode::nearest;
  std::string coordinates = "half_pixel";
  std::string rounding = "round_prefer_floor";
  bool antialias = false, exclude_outside = false;
  double cubic_coefficient = -0.75, extrapolation = 0;
  std::vector<ResizedAxis> axes;  // ascending; those whose elements change

  bool crops() const { return coordinates == "tf_crop_and_resize"; }
};

// The elements of an axis of the output as sums of elements of the input:
//   out[j] = sum of weight[k] * in[index[k]] over k in [first[j], first[j + 1])
// or the extrapolation value, where `outside` says so.
struct AxisWeights {
  std::vector<int64_t> first, index;
  std::vector<double> weight;
  std::vector<bool> outside;  // empty: none is
};

// Source: ONNX's operator reference, Resize-19, and its reference implementation.
AxisWeights axis_weights(const ResizeSpec& spec, const ResizedAxis& axis);
// The transpose: the gradient of in[i] as a sum over elements of the gradient of out.
AxisWeights transposed(const AxisWeights& weights, int64_t in);

// The values of the operands; empty where absent.
struct ResizeOperands {
  std::vector<double> roi, scales;
  std::vector<int64_t> sizes;
};
// Reads a Resize of an input of this shape. `shape` becomes that of the output. The error has no
// subject.
Result<ResizeSpec> resize_spec(const Attrs& attrs, const Shape& input,
                               const ResizeOperands& operands, Shape& output);

}  // namespace leat
