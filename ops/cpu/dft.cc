// CPU kernels of ops/definitions/dft.cc. They transform the lines of an axis, in doubles. A tile is
// a stretch of lines.
#include "ops/definitions/dft.h"

#include <algorithm>
#include <bit>
#include <memory>

#include "ops/cpu/cpu_kernels.h"
#include "ops/cpu/fft.h"
#include "ops/cpu/float_dispatch.h"
#include "ops/elements/tree_sum.h"

namespace leat {
namespace {

constexpr int64_t kElementsOfDftTile = 16 << 10;

// Real and imaginary parts of the lines along an axis of a tensor.
struct ComplexLines {
  ComplexLines(const Shape& shape, int axis)
      : size(shape[axis]),
        inner(shape.elements(axis + 1, shape.rank() - 1)),
        parts(shape[shape.rank() - 1]) {}
  // The index at which element `at` of a line begins.
  int64_t place(int64_t line, int64_t at) const {
    return ((line / inner * size + at) * inner + line % inner) * parts;
  }
  template <typename T>
  Fft::Complex load(const T* x, int64_t line, int64_t at) const {
    const T* const element = x + place(line, at);
    return {static_cast<double>(load_as_compute(element[0])),
            parts == 2 ? static_cast<double>(load_as_compute(element[1])) : 0};
  }
  template <typename T>
  void store(T* y, int64_t line, int64_t at, Fft::Complex value) const {
    T* const element = y + place(line, at);
    element[0] = store_from_compute<T>(static_cast<Compute<T>>(value.real()));
    if (parts == 2) element[1] = store_from_compute<T>(static_cast<Compute<T>>(value.imag()));
  }

  int64_t size, inner, parts;
};

// A node DFT, y = F x, or its gradient, by the conjugate transpose of F.
class DftKernelPlan {
 public:
  DftKernelPlan(const DftSpec& spec, const Shape& x, const Shape& y, bool gradient)
      : fft(spec.length),
        from(gradient ? y : x, spec.form.axis),
        to(gradient ? x : y, spec.form.axis),
        lines(x[spec.form.axis] == 0 ? y.elements(0, y.rank() - 1) / y[spec.form.axis]
                                     : x.elements(0, x.rank() - 1) / x[spec.form.axis]),
        real_result_(spec.form.real_result()),
        gradient_(gradient),
        inverse_(spec.form.inverse != (gradient && !real_result_) && !(gradient && real_result_)),
        scale_(spec.form.inverse ? 1 / static_cast<double>(spec.length) : 1) {}

  // Transforms one line of `x` into `y`. `memory` has room for the line and for fft's scratch.
  template <typename T>
  void run(const T* x, T* y, int64_t line, Fft::Complex* memory) const {
    const int64_t n = fft.length(), side = n / 2 + 1;
    const int64_t given = std::min(from.size, real_result_ && !gradient_ ? side : n);
    for (int64_t t = 0; t < given; ++t) memory[t] = from.load(x, line, t);
    std::fill(memory + given, memory + n, Fft::Complex(0));
    if (real_result_ && !gradient_) mirror(memory);
    if (inverse_) std::for_each(memory, memory + n, [](Fft::Complex& c) { c = std::conj(c); });
    fft.transform(memory, memory + n);
    const int64_t wanted = std::min(to.size, real_result_ && gradient_ ? side : n);
    for (int64_t k = 0; k < wanted; ++k) {
      const Fft::Complex value = memory[k] * (scale_ * weight(k));
      to.store(y, line, k, inverse_ ? std::conj(value) : value);
    }
    for (int64_t k = wanted; k < to.size; ++k) to.store(y, line, k, 0);
  }
  size_t scratch_bytes() const {
    return static_cast<size_t>(fft.length() + fft.scratch()) * sizeof(Fft::Complex);
  }

  const Fft fft;
  const ComplexLines from, to;
  const int64_t lines;

 private:
  // The frequencies of real numbers: those of the other side are the conjugates.
  void mirror(Fft::Complex* x) const {
    const int64_t n = fft.length();
    x[0] = x[0].real();
    if (n % 2 == 0) x[n / 2] = x[n / 2].real();
    for (int64_t k = n / 2 + 1; k < n; ++k) x[k] = std::conj(x[n - k]);
  }
  // Real results depend twice on each frequency that mirror() copies.
  double weight(int64_t k) const {
    const bool twice = real_result_ && gradient_ && k != 0 && 2 * k != fft.length();
    return twice ? 2 : 1;
  }

  bool real_result_, gradient_;
  bool inverse_;  // the sign of the exponent
  double scale_;
};

template <typename T>
class DftKernel final : public Kernel {
 public:
  explicit DftKernel(DftKernelPlan plan)
      : plan_(std::move(plan)),
        in_tile_(std::max<int64_t>(1, kElementsOfDftTile / plan_.fft.length())) {}
  int tiles(int) const override { return tile_count(plan_.lines, in_tile_); }
  size_t scratch_bytes() const override { return plan_.scratch_bytes(); }
  Progress run(KernelContext& context, int, int tile) override {
    auto* const memory = reinterpret_cast<Fft::Complex*>(context.scratch);
    const int64_t first = tile * in_tile_;
    for (int64_t line = first; line < std::min(plan_.lines, first + in_tile_); ++line)
      plan_.run(context.in<T>(0), context.out<T>(0), line, memory);
    return Progress::done;
  }

 private:
  const DftKernelPlan plan_;
  const int64_t in_tile_;
};

template <bool kGradient>
Result<std::unique_ptr<Kernel>> make_dft(const KernelSetup& setup) {
  const Shape& x = kGradient ? setup.output(0).shape : setup.input(0).shape;
  const Shape& y = kGradient ? setup.input(0).shape : setup.output(0).shape;
  LEAT_ASSIGN_OR_RETURN(const DftSpec spec, dft_spec_of(setup, x, y, kGradient ? 2 : 1));
  DftKernelPlan plan(spec, x, y, kGradient);
  return dispatch_float(setup.input(0).dtype, [&](auto zero) -> std::unique_ptr<Kernel> {
    return std::make_unique<DftKernel<decltype(zero)>>(std::move(plan));
  });
}

}  // namespace

void add_dft_kernels(Catalogue& catalogue) {
  catalogue.add_kernel("DFT", "cpu", make_dft<false>);
  catalogue.add_kernel("leat.DFTGrad", "cpu", make_dft<true>);
}

}  // namespace leat
