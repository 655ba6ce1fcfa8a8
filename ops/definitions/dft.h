// The discrete Fourier transforms of a node DFT, for its definition and its kernels.
#pragma once

#include <cstdint>
#include <optional>

#include "ops/graph/kernel.h"
#include "ops/graph/op.h"

namespace leat {

// How a node transforms. Complex numbers are the last axis: [real, imaginary], or [real].
struct DftForm {
  int axis = 0;
  bool inverse = false, onesided = false;
  // Only the inverse of one side gives real numbers; all other results are complex.
  bool real_result() const { return inverse && onesided; }
};

// The number of results along the axis.
inline int64_t dft_results(const DftForm& form, int64_t length) {
  return form.onesided && !form.inverse ? length / 2 + 1 : length;
}
// The length of a transform, if no input gives it, of `size` elements along the axis.
inline int64_t default_dft_length(const DftForm& form, int64_t size) {
  return form.real_result() ? 2 * (size - 1) : size;
}

// The form of a node for its kernel, and the length of its transform. `x` and `y` are the shapes of
// DFT's input and output, which leat.DFTGrad has the other way round; `length_input` is the index
// of dft_length, and the axis follows it. invalid_argument if the shapes do not fit, or if the
// length is not known when the kernel is made and does not follow from them.
struct DftSpec {
  DftForm form;
  int64_t length = 0;
};
Result<DftSpec> dft_spec_of(const KernelSetup& setup, const Shape& x, const Shape& y,
                            int length_input);

}  // namespace leat
