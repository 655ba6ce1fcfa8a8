// What ops that take shapes and axes as operands share. Such operands are int tensors whose values
// usually are known at compile time; when they are not, sizes become fresh symbols.
#pragma once

#include <optional>
#include <vector>

#include "ops/graph/op.h"

namespace leat {

// The values of input i (integers, in row-major order) if they are known.
std::optional<std::vector<int64_t>> known_ints(const InferContext& ctx, int i);
std::optional<std::vector<int64_t>> known_ints(const KernelSetup& setup, int i);
// Element i of an int32 or int64 operand, read at run time.
int64_t int_at(const void* data, DType dtype, int64_t i);

// Axes made >= 0, in their order. An axis out of range or named twice is an error.
Result<std::vector<int>> normalize_axes(const InferContext& ctx, const std::vector<int64_t>& axes,
                                        int rank);

// The number of elements of input i, which must be a vector of known length (a shape, axes).
Result<int> vector_length(const InferContext& ctx, int i);
// `rank` sizes of which nothing is known. An error if there are too many.
Result<SymbolicShape> fresh_shape(InferContext& ctx, int rank);
// The product of sizes [from, to); a fresh symbol if it cannot be written as one size.
Dim product(InferContext& ctx, const SymbolicShape& shape, int from, int to);

// `grad` in the shape of `like`, which has as many elements: the gradient of every reshaping op.
ValueId reshape_to(GradientContext& ctx, ValueId grad, ValueId like);

// Gradients of ops that pick elements have an operand that says how large their output is: the
// shape as an int64 vector where it is known, else a float tensor of that shape, of which the type
// alone counts. `kShapeOrLike` is the type of such an operand.
inline constexpr DTypeSet kShapeOrLike = kFloats | DTypeSet::of(DType::i64);
ValueId shape_or_like(GradientContext& ctx, ValueId like);
Result<SymbolicShape> infer_shape_or_like(InferContext& ctx, int i);

// Copies input 0 to output 0 unless they are the same memory already.
Result<std::unique_ptr<Kernel>> make_copy(const KernelSetup& setup);

// Rules of an op whose operands but the first say only how (axes, shapes): they are whole.
std::vector<ShardingRule> with_whole_operands(std::vector<ShardingRule> rules, size_t inputs);

}  // namespace leat
