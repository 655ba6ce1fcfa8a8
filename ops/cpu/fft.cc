#include "ops/cpu/fft.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <numbers>
#include <utility>

namespace leat {
namespace {

using Complex = Fft::Complex;

constexpr std::array<int64_t, 6> kRadices{4, 2, 3, 5, 7, 11};
constexpr int64_t kLargestRadix = 11;

// The product of two complex numbers without the treatment of infinities that the operator has.
Complex times(Complex a, Complex b) {
  return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
}

// e^(-2 pi i k / n), for 0 <= k < n.
Complex turn(int64_t k, int64_t n) {
  const double angle = -2 * std::numbers::pi * static_cast<double>(k) / static_cast<double>(n);
  return {std::cos(angle), std::sin(angle)};
}

bool has_small_factors(int64_t n) {
  for (const int64_t radix : kRadices) {
    while (n % radix == 0) n /= radix;
  }
  return n == 1;
}

// One step of Stockham's transform: lines of n elements, `stride` of them side by side, become
// radix times as many lines of n / radix elements.
struct Step {
  const Complex* x;
  Complex* y;
  const Complex* turns;  // of the whole length
  int64_t length, n, stride;

  const Complex& element(int64_t j, int64_t q) const { return x[q + stride * j]; }
  void put(int64_t j, int64_t q, Complex value) const { y[q + stride * j] = value; }
  // e^(-2 pi i k / n)
  Complex turn_of_line(int64_t k) const { return turns[k * (length / n)]; }
};

void step_by_2(const Step& s) {
  const int64_t m = s.n / 2;
  for (int64_t j = 0; j < m; ++j) {
    const Complex w = s.turn_of_line(j);
    for (int64_t q = 0; q < s.stride; ++q) {
      const Complex a = s.element(j, q), b = s.element(j + m, q);
      s.put(2 * j, q, a + b);
      s.put(2 * j + 1, q, times(a - b, w));
    }
  }
}

void step_by_4(const Step& s) {
  const int64_t m = s.n / 4;
  for (int64_t j = 0; j < m; ++j) {
    const Complex w1 = s.turn_of_line(j), w2 = s.turn_of_line(2 * j), w3 = s.turn_of_line(3 * j);
    for (int64_t q = 0; q < s.stride; ++q) {
      const Complex a = s.element(j, q), b = s.element(j + m, q), c = s.element(j + 2 * m, q),
                    d = s.element(j + 3 * m, q);
      const Complex even = a + c, odd = b + d, difference = a - c, quarter = b - d;
      const Complex turned(quarter.imag(), -quarter.real());  // times -i
      s.put(4 * j, q, even + odd);
      s.put(4 * j + 1, q, times(difference + turned, w1));
      s.put(4 * j + 2, q, times(even - odd, w2));
      s.put(4 * j + 3, q, times(difference - turned, w3));
    }
  }
}

void step_by(int64_t radix, const Step& s) {
  const int64_t m = s.n / radix, apart = s.length / radix;
  std::array<Complex, kLargestRadix> of;
  for (int64_t j = 0; j < m; ++j) {
    for (int64_t q = 0; q < s.stride; ++q) {
      for (int64_t r = 0; r < radix; ++r) of[static_cast<size_t>(r)] = s.element(j + r * m, q);
      for (int64_t t = 0; t < radix; ++t) {
        Complex sum = of[0];
        for (int64_t r = 1; r < radix; ++r)
          sum += times(of[static_cast<size_t>(r)], s.turns[r * t % radix * apart]);
        s.put(radix * j + t, q, times(sum, s.turn_of_line(j * t)));
      }
    }
  }
}

}  // namespace

Fft::Radices::Radices(int64_t of) : length(of) {
  int64_t rest = of;
  for (const int64_t radix : kRadices) {
    for (; rest % radix == 0; rest /= radix) factors.push_back(radix);
  }
  turns.reserve(static_cast<size_t>(of));
  for (int64_t k = 0; k < of; ++k) turns.push_back(turn(k, of));
}

void Fft::Radices::transform(Complex* x, Complex* y) const {
  Complex *from = x, *to = y;
  int64_t n = length, stride = 1;
  for (const int64_t radix : factors) {
    const Step step{from, to, turns.data(), length, n, stride};
    if (radix == 4)
      step_by_4(step);
    else if (radix == 2)
      step_by_2(step);
    else
      step_by(radix, step);
    n /= radix;
    stride *= radix;
    std::swap(from, to);
  }
  if (from != x) std::copy_n(from, length, x);
}

Fft::Fft(int64_t length)
    : length_(length),
      padded_(has_small_factors(length)
                  ? length
                  : static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(2 * length - 1)))),
      radices_(padded_) {
  if (padded_ == length_) return;
  // k^2 modulo 2 n, step by step: the square itself may be too large.
  int64_t square = 0;
  for (int64_t k = 0; k < length_; ++k) {
    chirp_.push_back(turn(square, 2 * length_));
    square = (square + 2 * k + 1) % (2 * length_);
  }
  filter_.assign(static_cast<size_t>(padded_), 0);
  for (int64_t k = 0; k < length_; ++k) {
    const auto at = static_cast<size_t>(k);
    filter_[at] = std::conj(chirp_[at]);
    if (k > 0) filter_[static_cast<size_t>(padded_ - k)] = filter_[at];
  }
  std::vector<Complex> memory(filter_.size());
  radices_.transform(filter_.data(), memory.data());
}

void Fft::transform(Complex* line, Complex* scratch) const {
  if (chirp_.empty())
    radices_.transform(line, scratch);
  else
    by_chirp(line, scratch);
}

// k t = (k^2 + t^2 - (k - t)^2) / 2, so the sum over t is a convolution of the line times the chirp
// with the chirp's conjugate.
void Fft::by_chirp(Complex* line, Complex* scratch) const {
  Complex *const padded = scratch, *const memory = scratch + padded_;
  for (int64_t t = 0; t < length_; ++t) padded[t] = times(line[t], chirp_[static_cast<size_t>(t)]);
  std::fill(padded + length_, padded + padded_, Complex(0));
  radices_.transform(padded, memory);
  // The conjugate of a transform of conjugates is the inverse, but for the length.
  for (int64_t k = 0; k < padded_; ++k)
    padded[k] = std::conj(times(padded[k], filter_[static_cast<size_t>(k)]));
  radices_.transform(padded, memory);
  const double scale = 1 / static_cast<double>(padded_);
  for (int64_t k = 0; k < length_; ++k)
    line[k] = times(std::conj(padded[k]) * scale, chirp_[static_cast<size_t>(k)]);
}

}  // namespace leat
