// Helpers that the tests of all ops share: running one op, comparing tensors, and the checks for
// all ops of a kind (gradients against finite differences, tiles against the whole).
//
// Everything here is deterministic, and a failed check fails the calling test case.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "devices/core/tensor.h"
#include "ops/catalogue.h"
#include "ops/graph/interpret.h"
#include "ops/graph/op.h"
#include "ops/graph/validate.h"

namespace leat::testing {

// Returns standard_catalogue(), which is made once.
const Catalogue& test_catalogue();

// Runs one op on the CPU. An absent optional input is Tensor().
std::vector<Tensor> run(std::string_view op, const std::vector<Tensor>& inputs,
                        const Attrs& attrs = {}, int outputs = 1,
                        const InterpretOptions& options = {});
// run() of an op with one output.
Tensor run1(std::string_view op, const std::vector<Tensor>& inputs, const Attrs& attrs = {});
// Returns the error of an op that must fail, at inference or while it runs.
Status run_error(std::string_view op, const std::vector<Tensor>& inputs, const Attrs& attrs = {},
                 int outputs = 1);

// Returns the gate's outcome for one op with these types and, where valid, values. Symbols of
// `types` are any ids below 1000; fresh ones count from 1000.
Result<OpOutcome> infer(std::string_view op, const std::vector<ValueType>& types,
                        const Attrs& attrs = {}, int outputs = 1,
                        const std::vector<Tensor>& values = {});
// A tensor type.
ValueType tensor_type(DType dtype, SymbolicShape shape);

// Returns uniform numbers in [low, high) that depend only on the arguments. Integers are rounded
// down; bool is true in the upper half.
Tensor random_tensor(DType dtype, const Shape& shape, uint64_t seed, double low = -1,
                     double high = 1);

// A row of i64.
Tensor ints(const std::vector<int64_t>& values);
// 0, 1, 2, ... in `dtype`.
Tensor counting(DType dtype, const Shape& shape);

// The same dtype and shape, and |actual - expected| <= atol + rtol * |expected| for each element;
// NaN equals NaN, infinities equal themselves. Reports the first element that differs.
void check_close(const Tensor& actual, const Tensor& expected, double rtol = 1e-5,
                 double atol = 1e-6);
// The same to the bit.
void check_identical(const Tensor& actual, const Tensor& expected);

// The gradients of sum_i(weights_i * output_i), with fixed random weights, against central
// differences in f64. `inputs` that are `differentiable` must be f64; the rest are constants. An
// input whose gradient is legally absent is not listed. Only float outputs are weighted; an op with
// more than one of them needs ReduceSum.
void check_gradients(std::string_view op, const std::vector<Tensor>& inputs, const Attrs& attrs,
                     const std::vector<int>& differentiable, int outputs = 1,
                     double tolerance = 1e-6);

// The gradients of sum(output 0) with respect to every input, all of which are f64.
std::vector<Tensor> gradients_of(std::string_view op, const std::vector<Tensor>& inputs,
                                 const Attrs& attrs = {});

// REQUIRES: the op's tiling rule cuts these inputs into rows. Checks that results are the same to
// the bit for tiles of 1 row, 3 rows and all rows, in either order; that the kernel makes as many
// tiles as it was told; and that a tile reads no row of a row operand but its own.
void check_tiles(std::string_view op, const std::vector<Tensor>& inputs, const Attrs& attrs = {},
                 int outputs = 1);

// REQUIRES: the op's layout rule takes these inputs blocked. Checks that the result with blocked
// operands, made plain again, is close to the plain one (to the bit when rtol == atol == 0).
void check_channels16(std::string_view op, const std::vector<Tensor>& inputs,
                      const Attrs& attrs = {}, int outputs = 1, double rtol = 0, double atol = 0);

// Runs all phases and tiles of a kernel in order, with workspace and scratch memory of its own. A
// tile that does not end with `done` fails the test. `outputs` and `inputs` are their addresses;
// null: absent.
void run_kernel(Kernel& kernel, std::vector<void*> inputs, std::vector<void*> outputs);

// [N,C,H,W] to the bytes of [N,C/16,H,W,16] (the shape stays), and back. REQUIRES: C % 16 == 0.
Tensor to_channels16(const Tensor& plain);
Tensor from_channels16(const Tensor& blocked);

}  // namespace leat::testing
