#include "ops/elements/vector_math.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/catch.h"

namespace leat {
namespace {

// Returns the largest distance from `exact`, in units in the last place of the float result, for
// floats of every exponent in [-limit, limit].
template <typename Fast, typename Exact>
double worst_ulp(Fast fast, Exact exact, float limit) {
  double worst = 0;
  for (uint32_t bits = 1; bits < 0x7f800000; bits += 4099) {
    const float magnitude = std::bit_cast<float>(bits);
    if (magnitude > limit) break;
    for (float x : {magnitude, -magnitude}) {
      const double truth = exact(static_cast<double>(x));
      const auto rounded = static_cast<float>(truth);
      if (std::abs(rounded) < std::numeric_limits<float>::min())
        continue;  // subnormal: has no meaningful ulp
      const double ulp = std::nextafter(std::abs(rounded), INFINITY) - std::abs(rounded);
      if (std::isinf(ulp)) continue;
      worst = std::max(worst, std::abs(static_cast<double>(fast(x)) - truth) / ulp);
    }
  }
  return worst;
}

TEST_CASE("the fast f32 functions are within a few units in the last place") {
  CHECK(worst_ulp([](float x) { return vmath::exp(x); }, [](double x) { return std::exp(x); },
                  88.0f) < 2);
  CHECK(worst_ulp([](float x) { return vmath::tanh(x); }, [](double x) { return std::tanh(x); },
                  1e30f) < 6);
  CHECK(worst_ulp([](float x) { return vmath::erf(x); }, [](double x) { return std::erf(x); },
                  1e30f) < 8);
}

TEST_CASE("the fast f32 functions keep infinities, NaN and the ends of the range") {
  const float inf = INFINITY, nan = std::nanf("");
  CHECK(vmath::exp(inf) == inf);
  CHECK(vmath::exp(-inf) == 0);
  CHECK(vmath::exp(89.0f) == inf);
  CHECK(vmath::exp(0.0f) == 1);
  CHECK(std::isnan(vmath::exp(nan)));
  CHECK(vmath::exp(-100.0f) == Approx(std::exp(-100.0)).epsilon(0.02).margin(0));  // subnormal
  CHECK(vmath::tanh(inf) == 1);
  CHECK(vmath::tanh(-inf) == -1);
  CHECK(std::isnan(vmath::tanh(nan)));
  CHECK(vmath::erf(inf) == 1);
  CHECK(vmath::erf(-inf) == -1);
  CHECK(std::isnan(vmath::erf(nan)));
  CHECK(vmath::sigmoid(-200.0f) == 0);
  CHECK(vmath::sigmoid(200.0f) == 1);
}

}  // namespace
}  // namespace leat
