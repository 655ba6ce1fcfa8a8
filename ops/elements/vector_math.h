// Transcendental functions of f32 as straight-line code, which compilers vectorize. Every vector
// width gives equal bits, which libm's vector variants do not guarantee: there is no branch, no
// table and no call, and the build does not contract a * b + c. Errors are in units in the last
// place (ulp).
//
// The functions are inlined into the loops that LEAT_VECTOR_CLONES compiles for each instruction
// set. They accept every float, never trap and set no errno; a NaN gives a NaN. Templates over
// float and double call them by the same names: for double they are the functions of the C library,
// so a result in double has the same bits only with the same version of that library.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "devices/base/inline.h"

namespace leat::vmath {

// e^x, at most 2 ulp. Cephes' expf: x = n ln2 + r, a polynomial in r, and 2^n from its exponent
// bits in two halves, so that subnormal results and infinity are correct. x is first clamped to
// [-105, 89], beyond which the result is 0 or infinity in float.
LEAT_INLINE float exp(float x) {
  float t = x > 89.0f ? 89.0f : x;
  t = t < -105.0f ? -105.0f : t;
  constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer
  const float shifted = t * 1.44269504088896341f + kRound;
  const float n = shifted - kRound;
  float r = t - n * 0.693359375f;
  r = r - n * -2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  const int32_t e =
      static_cast<int32_t>(std::bit_cast<uint32_t>(shifted) - std::bit_cast<uint32_t>(kRound));
  const int32_t half = e >> 1;
  const float a = std::bit_cast<float>(static_cast<uint32_t>(half + 127) << 23);
  const float b = std::bit_cast<float>(static_cast<uint32_t>(e - half + 127) << 23);
  return p * a * b;
}

// The hyperbolic tangent, at most 6 ulp. A rational function on [-7.9, 7.9], as in Eigen; outside
// the nearest float is 1 or -1. For |x| < 0.0004 the result is x itself, so -0 stays -0 and
// subnormals keep their bits.
LEAT_INLINE float tanh(float x) {
  constexpr float kEnd = 7.90531110763549805f;
  float t = x > kEnd ? kEnd : x;
  t = t < -kEnd ? -kEnd : t;
  const float s = t * t;
  float p = -2.76076847742355e-16f;
  p = p * s + 2.00018790482477e-13f;
  p = p * s + -8.60467152213735e-11f;
  p = p * s + 5.12229709037114e-08f;
  p = p * s + 1.48572235717979e-05f;
  p = p * s + 6.37261928875436e-04f;
  p = p * s + 4.89352455891786e-03f;
  float q = 1.19825839466702e-06f;
  q = q * s + 1.18534705686654e-04f;
  q = q * s + 2.26843463243900e-03f;
  q = q * s + 4.89352518554385e-03f;
  const float y = t * (p / q);
  const float tiny = x < 0 ? -x : x;
  return tiny < 4e-4f ? x : y;  // which keeps the bits of subnormals, too
}

// The error function of the exact Gelu, at most 8 ulp. A rational function on [-4, 4], as in Eigen;
// x is clamped to that range, where erf has reached 1 or -1 in float up to the stated error.
LEAT_INLINE float erf(float x) {
  float t = x > 4.0f ? 4.0f : x;
  t = t < -4.0f ? -4.0f : t;
  const float s = t * t;
  float p = -2.72614225801306e-10f;
  p = p * s + 2.77068142495902e-08f;
  p = p * s + -2.10102402082508e-06f;
  p = p * s + -5.69250639462346e-05f;
  p = p * s + -7.34990630326855e-04f;
  p = p * s + -2.95459980854025e-03f;
  p = p * s + -1.60960333262415e-02f;
  float q = -1.45660718464996e-05f;
  q = q * s + -2.13374055278905e-04f;
  q = q * s + -1.68282697438203e-03f;
  q = q * s + -7.37332916720468e-03f;
  q = q * s + -1.42647390514189e-02f;
  return t * (p / q);
}

// The logistic function 1 / (1 + e^-x). For large negative x the exponential is infinite and the
// result 0; it never becomes NaN, unless x is.
LEAT_INLINE float sigmoid(float x) { return 1.0f / (1.0f + exp(-x)); }

// The same names for double, with the functions of the C library.
LEAT_INLINE double exp(double x) { return std::exp(x); }
LEAT_INLINE double tanh(double x) { return std::tanh(x); }
LEAT_INLINE double erf(double x) { return std::erf(x); }
LEAT_INLINE double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }

}  // namespace leat::vmath
