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

template <typename From>
PointwiseLaunch cast_from(DType to) {
  switch (to) {
    case DType::f32:
      return launch_pointwise<CastTo<From, float>>;
    case DType::f64:
      return launch_pointwise<CastTo<From, double>>;
    case DType::f16:
      return launch_pointwise<CastTo<From, Half>>;
    case DType::bf16:
      return launch_pointwise<CastTo<From, BFloat16>>;
    case DType::i8:
      return launch_pointwise<CastTo<From, int8_t>>;
    case DType::i16:
      return launch_pointwise<CastTo<From, int16_t>>;
    case DType::i32:
      return launch_pointwise<CastTo<From, int32_t>>;
    case DType::i64:
      return launch_pointwise<CastTo<From, int64_t>>;
    case DType::u8:
      return launch_pointwise<CastTo<From, uint8_t>>;
    case DType::u16:
      return launch_pointwise<CastTo<From, uint16_t>>;
    case DType::u32:
      return launch_pointwise<CastTo<From, uint32_t>>;
    case DType::u64:
      return launch_pointwise<CastTo<From, uint64_t>>;
    case DType::boolean:
      return launch_pointwise<CastTo<From, bool>>;
    default:
      return nullptr;
  }
}

}  // namespace

PointwiseLaunch find_cast(DType from, DType to) {
  switch (from) {
    case DType::f32:
      return cast_from<float>(to);
    case DType::f64:
      return cast_from<double>(to);
    case DType::f16:
      return cast_from<Half>(to);
    case DType::bf16:
      return cast_from<BFloat16>(to);
    case DType::i8:
      return cast_from<int8_t>(to);
    case DType::i16:
      return cast_from<int16_t>(to);
    case DType::i32:
      return cast_from<int32_t>(to);
    case DType::i64:
      return cast_from<int64_t>(to);
    case DType::u8:
      return cast_from<uint8_t>(to);
    case DType::u16:
      return cast_from<uint16_t>(to);
    case DType::u32:
      return cast_from<uint32_t>(to);
    case DType::u64:
      return cast_from<uint64_t>(to);
    case DType::boolean:
      return cast_from<bool>(to);
    default:
      return nullptr;
  }
}

}  // namespace leat::cuda
