// Shared rules of ops that take shapes and axes as operands. Such operands are int tensors whose
// values are usually known at compile time; if they are not, sizes become new symbols.
#pragma once

#include <optional>
#include <vector>

#include "ops/graph/op.h"

namespace leat {

// The values of input i (integers, in row-major order) if they are known.
std::optional<std::vector<int64_t>> known_ints(const InferContext& ctx, int i);
std::optional<std::vector<int64_t>> known_ints(const KernelSetup& setup, int i);
// The elements of input i as far as they are known as constants or symbolic sizes; nothing if none
// is.
std::optional<SizeValues> known_sizes(const InferContext& ctx, int i);
// "[N,-1,64]"; "?" for a size that is not known.
std::string sizes_text(const InferContext& ctx, const SizeValues& sizes);
// Element i of an int32 or int64 operand at run time.
int64_t int_at(const void* data, DType dtype, int64_t i);

// The axes mapped to [0, rank), in their order. An axis out of range, or a repeated one, is an
// error.
Result<std::vector<int>> normalize_axes(const InferContext& ctx, const std::vector<int64_t>& axes,
                                        int rank);

// The number of elements of input i, which must be a vector of known length (a shape, axes).
Result<int> vector_length(const InferContext& ctx, int i);
// A shape of `rank` unknown sizes, each a new symbol. It is an error if there are too many.
Result<SymbolicShape> fresh_shape(InferContext& ctx, int rank);
// The shape of these sizes; one that is not known is a new symbol. `operand` names them in errors:
// a negative size, too many sizes, too many elements.
Result<SymbolicShape> shape_of(InferContext& ctx, const SizeValues& sizes,
                               std::string_view operand);
// The product of sizes [from, to); a new symbol if it cannot be written as one size.
Dim product(InferContext& ctx, const SymbolicShape& shape, int from, int to);

// Reshapes `grad` to the shape of `like`, which has as many elements: the gradient of every op that
// reshapes.
ValueId reshape_to(GradientContext& ctx, ValueId grad, ValueId like);

// The gradient of an op that picks elements has an operand that determines the shape of its output:
// an int64 vector with the shape if it is known, else a float tensor of that shape, of which only
// the type is read. `kShapeOrLike` is the type of such an operand.
inline constexpr DTypeSet kShapeOrLike = kFloats | DTypeSet::of(DType::i64);
ValueId shape_or_like(GradientContext& ctx, ValueId like);
Result<SymbolicShape> infer_shape_or_like(InferContext& ctx, int i);

// A kernel that copies input 0 to output 0, unless they share memory.
Result<std::unique_ptr<Kernel>> make_copy(const KernelSetup& setup);

// The rules of an op in which all operands but the first are parameters (axes, shapes): those are
// whole.
std::vector<ShardingRule> with_whole_operands(std::vector<ShardingRule> rules, size_t inputs);

}  // namespace leat
