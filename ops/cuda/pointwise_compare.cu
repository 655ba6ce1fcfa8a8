// Comparisons, logic and selections.
#include "ops/cuda/pointwise.cuh"
#include "ops/elements/compare.h"

namespace leat::cuda {
namespace {

using namespace elementwise;  // NOLINT: the functors

template <typename F, typename T, typename Y>
struct Compare : Binary<F, T, bool> {};
template <typename F, typename T, typename Y>
struct Predicate : Unary<F, T, bool> {};

template <typename F>
PointwiseLaunch compare_all(DType dtype) {
  return dtype == DType::boolean ? launch_pointwise<Compare<F, bool, bool>>
                                 : for_numbers<Compare, F>(dtype);
}
template <typename F>
PointwiseLaunch logic(DType) {
  return launch_pointwise<Compare<F, bool, bool>>;
}
PointwiseLaunch negation(DType) { return launch_pointwise<Predicate<NotOf, bool, bool>>; }

constexpr PointwiseEntry kTable[] = {
    {"Equal", compare_all<EqualOf>},
    {"Greater", compare_all<GreaterOf>},
    {"Less", compare_all<LessOf>},
    {"GreaterOrEqual", compare_all<GreaterOrEqualOf>},
    {"LessOrEqual", compare_all<LessOrEqualOf>},
    {"And", logic<AndOf>},
    {"Or", logic<OrOf>},
    {"Xor", logic<XorOf>},
    {"Not", negation},
    {"IsNaN", for_floats<Predicate, IsNaNOf>},
    {"IsInf", for_floats<Predicate, IsInfOf>},
};

// A selection copies bits.
template <typename T>
struct Where {
  static constexpr int kOperands = 3, kNeighbours = 1;
  __device__ static void apply(const PointwiseCall& call, int64_t i, const int64_t* at) {
    const bool yes = static_cast<const bool*>(call.x[0])[at[0]];
    static_cast<T*>(call.y)[i] =
        yes ? static_cast<const T*>(call.x[1])[at[1]] : static_cast<const T*>(call.x[2])[at[2]];
  }
};

}  // namespace

PointwiseLaunch find_comparison(std::string_view op, DType dtype) {
  return find_in(kTable, op, dtype);
}

PointwiseLaunch find_where(size_t element_bytes) {
  switch (element_bytes) {
    case 1:
      return launch_pointwise<Where<uint8_t>>;
    case 2:
      return launch_pointwise<Where<uint16_t>>;
    case 4:
      return launch_pointwise<Where<uint32_t>>;
    default:
      return launch_pointwise<Where<uint64_t>>;
  }
}

}  // namespace leat::cuda
