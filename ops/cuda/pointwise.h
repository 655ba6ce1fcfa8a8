// Elementwise ops on CUDA: what a launch needs, and the launches that there are.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <string_view>

#include "devices/base/dtype.h"

namespace leat::cuda {

struct Complaint;

inline constexpr int kMostAxes = 8;
inline constexpr int kMostOperands = 4;

// One launch: y[i] = f(x[0][...], x[1][...], ...) for i < elements, with each operand broadcast.
struct PointwiseCall {
  int64_t elements = 0;
  void* y = nullptr;                  // contiguous
  const void* x[kMostOperands] = {};  // null where an operand is absent
  int rank = 0;                       // merged axes of y, outermost first
  int64_t sizes[kMostAxes] = {};
  int64_t steps[kMostOperands][kMostAxes] = {};  // of each operand along each axis, in elements
  double params[2] = {};                         // float attributes of the op
  Complaint* complaint = nullptr;                // of integer divisions
};

using PointwiseLaunch = cudaError_t (*)(const PointwiseCall&, cudaStream_t);

// The launch of an op ("Add", "leat.ReluGrad") for operands of `dtype`; null if there is none. The
// result is of the same dtype, or bool for comparisons. "Gelu.tanh", "Mod.fmod" and "Pow.uniform"
// are the variants that an attribute or a shape chooses.
PointwiseLaunch find_arithmetic(std::string_view op, DType dtype);
PointwiseLaunch find_unary(std::string_view op, DType dtype);
PointwiseLaunch find_activation(std::string_view op, DType dtype);
PointwiseLaunch find_comparison(std::string_view op, DType dtype);
// Cast from one dtype to the other, and Pow with an exponent of another dtype, whose number is
// params[0]; null where there is no such op.
PointwiseLaunch find_cast(DType from, DType to);
PointwiseLaunch find_mixed_pow(DType base);
// A cast from or to a narrow type, or both; leat.Quantize, and leat.Dequantize, whose second
// operand may be absent. params: the narrow type as a number of DType, and 1 for `saturate` plus
// twice the number of PowerRounding. Between two narrow types params[0] has 32 times the number of
// the second.
PointwiseLaunch find_narrow_cast(DType from, DType to);
PointwiseLaunch find_quantize(DType from, DType to);
PointwiseLaunch find_dequantize(DType from, DType to);
// (condition, x, y) for elements of 1, 2, 4 or 8 bytes.
PointwiseLaunch find_where(size_t element_bytes);

}  // namespace leat::cuda
