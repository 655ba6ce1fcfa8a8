// The kernel of elementwise ops: it walks broadcast operands and calls an inner loop over
// contiguous output elements. elementwise_loops.h makes the loops.
//
// The walk merges neighbouring axes along which every operand is contiguous, so an op over operands
// of equal shape is one call of the loop per tile. Tiles are about 32 Ki elements, or the rows of
// dimension 0 that a chain gives.
#pragma once

#include <string>
#include <vector>

#include "ops/graph/kernel.h"

namespace leat {

// y[i] = f(x[0][i * steps[0]], x[1][i * steps[1]], ...) for i in [0, n). y is contiguous and may be
// the same memory as an x that has step 1. An absent operand is null. `params` are the op's
// attributes.
using Loop = void (*)(void* y, const void* const* x, const int64_t* steps, int64_t n,
                      const double* params);

inline constexpr int kMaxLoopInputs = 4;

// Computes output 0 from all inputs at once, each broadcast to its shape; at most kMaxLoopInputs of
// them. A null loop means that the op has no kernel for these types.
//
// `fast` is the loop for f32, or null. If all operands are f16 or all are bf16, it runs instead of
// `loop`, on pieces of the operands that are converted to float, and each result is rounded once.
Result<std::unique_ptr<Kernel>> make_elementwise(const KernelSetup& setup, Loop loop,
                                                 std::vector<double> params = {},
                                                 Loop fast = nullptr);

// Computes output 0 = f(...f(f(x0, x1), x2)..., xn) for any number of inputs; it rounds after each
// f. `copy` is the loop for a single input, and `fast` that of `binary` for f32, as above.
Result<std::unique_ptr<Kernel>> make_elementwise_fold(const KernelSetup& setup, Loop binary,
                                                      Loop copy, Loop fast = nullptr);

// The same as `make_elementwise`, but each tile first checks the elements of input `divisor`
// (integers) that it reads: a zero fails the step.
Result<std::unique_ptr<Kernel>> make_elementwise_division(const KernelSetup& setup, Loop loop,
                                                          int divisor, Loop fast = nullptr);

// The factory of make_elementwise() with the loop that `pick` returns for output 0's dtype and
// `fast`, its loop for f32. `params` are names of float attributes, in the loop's order.
KernelFactory loop_kernel(Loop (*pick)(DType dtype, Loop fast), Loop fast,
                          std::vector<std::string> params = {});

}  // namespace leat
