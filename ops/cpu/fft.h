// The discrete Fourier transform of one line of any length, in O(n log n).
//
//   const Fft fft(1000);
//   std::vector<std::complex<double>> line(1000), scratch(fft.scratch());
//   fft.transform(line.data(), scratch.data());   // line[k] = sum over t of line[t] w^(k t)
//
// Here w = e^(-2 pi i / n). Lengths whose prime factors are small go through a mixed radix
// transform in the form of Stockham, which needs no reordering. All others are a convolution with a
// chirp, whose length is a power of two: L. Bluestein, "A linear filtering approach to the
// computation of the discrete Fourier transform", NEREM Record 10, 1968.
//
// Threads: a plan does not change once it is made, and any thread may use it.
#pragma once

#include <complex>
#include <cstdint>
#include <vector>

namespace leat {

class Fft {
 public:
  using Complex = std::complex<double>;

  // Makes the tables of a length. REQUIRES: length >= 1.
  explicit Fft(int64_t length);

  int64_t length() const { return length_; }
  // The elements of scratch memory that transform() needs.
  int64_t scratch() const { return chirp_.empty() ? length_ : 2 * padded_; }
  // Transforms the `length()` elements of `line` in place. It allocates nothing.
  void transform(Complex* line, Complex* scratch) const;

 private:
  // The transform of a length with small prime factors.
  struct Radices {
    explicit Radices(int64_t of);
    // Leaves the result in `x`; `y` is memory of the same length.
    void transform(Complex* x, Complex* y) const;

    int64_t length;
    std::vector<int64_t> factors;
    std::vector<Complex> turns;  // e^(-2 pi i k / length)
  };
  void by_chirp(Complex* line, Complex* scratch) const;

  int64_t length_, padded_;
  Radices radices_;              // of length_, or of padded_
  std::vector<Complex> chirp_;   // e^(-pi i k^2 / length); empty if no convolution is needed
  std::vector<Complex> filter_;  // the transform of the chirp's conjugate, wrapped around
};

}  // namespace leat
