// Cast between any two dtypes, and Expand as a Cast to the same.
#include "ops/cuda/pointwise.cuh"
#include "ops/elements/convert.h"

namespace leat::cuda {
namespace {

template <typename From, typename To>
struct CastTo {
  static constexpr int kOperands = 1, kNeighbours = neighbours_of<From, To>();
  __device__ static void apply(const PointwiseCall& call, int64_t i, const int64_t* at) {
    result<To>(call, i, elementwise::convert<Compute<To>>(operand<From>(call, 0, at[0])));
  }
  __device__ static void apply_all(const PointwiseCall& call, int64_t i, const int64_t* at) {
    const auto x = neighbours<From, kNeighbours>(call, 0, at[0]);
    Vector<To, kNeighbours> y;
#pragma unroll
    for (int j = 0; j < kNeighbours; ++j)
      y.of[j] = store<To>(elementwise::convert<Compute<To>>(load(x.of[j])));
    store_vector(static_cast<To*>(call.y) + i, y);
  }
};

}  // namespace

PointwiseLaunch find_cast(DType from, DType to) {
  return launch_for(from, [to](auto x) {
    using From = decltype(x);
    return launch_for(to, [](auto y) { return launch_pointwise<CastTo<From, decltype(y)>>; });
  });
}

}  // namespace leat::cuda
