// The activations, their gradients, Clip and its gradient.
#include "ops/cuda/pointwise.cuh"
#include "ops/elements/activations.h"

namespace leat::cuda {
namespace {

using namespace elementwise;  // NOLINT: the functors

// (x, low or absent, high or absent): the bounds are single elements. If low > high, every element
// becomes high, as in numpy; a NaN passes through.
template <typename F, typename T, typename Y = T>
struct Clip {
  static constexpr int kOperands = 1, kNeighbours = 1;
  __device__ static void apply(const PointwiseCall& call, int64_t i, const int64_t* at) {
    auto v = operand<T>(call, 0, at[0]);
    if (call.x[1] && v < operand<T>(call, 1, 0)) v = operand<T>(call, 1, 0);
    if (call.x[2] && v > operand<T>(call, 2, 0)) v = operand<T>(call, 2, 0);
    result<T>(call, i, v);
  }
};
// (dy, x, low or absent, high or absent): a NaN is not outside.
template <typename F, typename T, typename Y = T>
struct ClipGrad {
  static constexpr int kOperands = 2, kNeighbours = 1;
  __device__ static void apply(const PointwiseCall& call, int64_t i, const int64_t* at) {
    const auto v = operand<T>(call, 1, at[1]);
    const bool outside =
        (call.x[2] && v < operand<T>(call, 2, 0)) || (call.x[3] && v > operand<T>(call, 3, 0));
    result<T>(call, i, outside ? Compute<T>{0} : operand<T>(call, 0, at[0]));
  }
};

constexpr PointwiseEntry kTable[] = {
    {"Relu", for_signed<Unary, ReluOf>},
    {"leat.ReluGrad", for_floats<Binary, ReluGradOf>},
    {"LeakyRelu", for_floats<Unary, LeakyReluOf>},
    {"leat.LeakyReluGrad", for_floats<Binary, LeakyReluGradOf>},
    {"Sigmoid", for_floats<Unary, SigmoidOf>},
    {"leat.SigmoidGrad", for_floats<Binary, SigmoidGradOf>},
    {"Tanh", for_floats<Unary, TanhOf>},
    {"leat.TanhGrad", for_floats<Binary, TanhGradOf>},
    {"Gelu", for_floats<Unary, GeluOf>},
    {"leat.GeluGrad", for_floats<Binary, GeluGradOf>},
    {"Gelu.tanh", for_floats<Unary, TanhGeluOf>},
    {"leat.GeluGrad.tanh", for_floats<Binary, TanhGeluGradOf>},
    {"Elu", for_floats<Unary, EluOf>},
    {"leat.EluGrad", for_floats<Binary, EluGradOf>},
    {"Softplus", for_floats<Unary, SoftplusOf>},
    {"HardSigmoid", for_floats<Unary, HardSigmoidOf>},
    {"leat.HardSigmoidGrad", for_floats<Binary, HardSigmoidGradOf>},
    {"Clip", for_numbers<Clip, void>},
    {"leat.ClipGrad", for_floats<ClipGrad, void>},
};

}  // namespace

PointwiseLaunch find_activation(std::string_view op, DType dtype) {
  return find_in(kTable, op, dtype);
}

}  // namespace leat::cuda
