#include "ops/definitions/shapes.h"

#include <algorithm>
#include <cstring>

#include "devices/base/text.h"

namespace leat {
namespace {

// A null tensor means that the value is not known. Elements of any integer type become int64.
std::optional<std::vector<int64_t>> ints_of(const Tensor* tensor) {
  if (tensor == nullptr) return std::nullopt;
  std::vector<int64_t> values;
  for (int64_t i = 0; i < tensor->elements(); ++i) values.push_back(tensor->int_at(i));
  return values;
}

}  // namespace

std::optional<std::vector<int64_t>> known_ints(const InferContext& ctx, int i) {
  return ints_of(ctx.constant(i));
}
std::optional<std::vector<int64_t>> known_ints(const KernelSetup& setup, int i) {
  return ints_of(setup.constant(i));
}

std::optional<SizeValues> known_sizes(const InferContext& ctx, int i) {
  if (!ctx.sizes(i).empty()) return ctx.sizes(i);
  const auto values = known_ints(ctx, i);
  if (!values) return std::nullopt;
  SizeValues sizes;
  for (const int64_t value : *values) sizes.emplace_back(Dim::of(value));
  return sizes;
}

std::string sizes_text(const InferContext& ctx, const SizeValues& sizes) {
  std::vector<std::string> texts;
  for (const std::optional<Dim>& size : sizes) {
    const std::string shape = size ? ctx.text(SymbolicShape{*size}) : "[?]";
    texts.push_back(shape.substr(1, shape.size() - 2));
  }
  return cat("[", join(texts, ","), "]");
}

int64_t int_at(const void* data, DType dtype, int64_t i) {
  return dtype == DType::i32 ? static_cast<const int32_t*>(data)[i]
                             : static_cast<const int64_t*>(data)[i];
}

// The search for repeats is linear, since there are at most kMaxRank different axes.
Result<std::vector<int>> normalize_axes(const InferContext& ctx, const std::vector<int64_t>& axes,
                                        int rank) {
  std::vector<int> out;
  for (int64_t axis : axes) {
    LEAT_ASSIGN_OR_RETURN(const int normal, normalize_axis(ctx, axis, rank));
    if (std::count(out.begin(), out.end(), normal) > 0) {
      return ctx.error(cat("axes: expected each axis once, received ", axis, " again"));
    }
    out.push_back(normal);
  }
  return out;
}

// The result is at most kMaxRank + 1, so that it fits an int; callers refuse such a rank anyway.
Result<int> vector_length(const InferContext& ctx, int i) {
  const SymbolicShape& shape = ctx.shape(i);
  if (shape.rank() != 1 || !shape[0].is_constant()) {
    return ctx.error(
        cat("input ", i, ": expected a vector of known length, received ", ctx.text(shape)));
  }
  return static_cast<int>(std::min<int64_t>(shape[0].factor, kMaxRank + 1));
}

Result<SymbolicShape> fresh_shape(InferContext& ctx, int rank) {
  if (rank > kMaxRank)
    return ctx.error(cat("expected rank at most ", kMaxRank, ", received ", rank));
  SymbolicShape shape;
  for (int d = 0; d < rank; ++d) shape.push_back(Dim::of_symbol(ctx.fresh_symbol()));
  return shape;
}

Result<SymbolicShape> shape_of(InferContext& ctx, const SizeValues& sizes,
                               std::string_view operand) {
  if (sizes.size() > kMaxRank) {
    return ctx.error(
        cat(operand, ": expected at most ", kMaxRank, " sizes, received ", sizes.size()));
  }
  SymbolicShape shape;
  for (const std::optional<Dim>& size : sizes) {
    if (size && size->factor < 0)
      return ctx.error(cat(operand, ": expected a shape, received ", sizes_text(ctx, sizes)));
    shape.push_back(size ? *size : Dim::of_symbol(ctx.fresh_symbol()));
  }
  return shape;
}

// A product of two symbols is no single size: the result is a new symbol then, and the relation is
// lost.
Dim product(InferContext& ctx, const SymbolicShape& shape, int from, int to) {
  Dim total = Dim::of(1);
  for (int d = from; d < to; ++d) {
    const auto next = multiply(total, shape[d]);
    if (!next) return Dim::of_symbol(ctx.fresh_symbol());
    total = *next;
  }
  return total;
}

// One unknown size can be -1 in a constant target. With two or more, the target is the Shape of
// `like`, computed when the step runs.
ValueId reshape_to(GradientContext& ctx, ValueId grad, ValueId like) {
  const SymbolicShape shape = ctx.type(like).shape;
  if (ctx.type(grad).shape == shape) return grad;
  std::vector<int64_t> sizes;
  int unknown = 0;
  for (Dim dim : shape.dims()) {
    unknown += dim.is_constant() ? 0 : 1;
    sizes.push_back(dim.is_constant() ? dim.factor : -1);
  }
  const auto rank = static_cast<int64_t>(sizes.size());
  // Sizes of 0 are literal; with one of them, -1 has no unique solution.
  const bool empty = std::count(sizes.begin(), sizes.end(), 0) > 0;
  const ValueId target = unknown > 1 || (unknown == 1 && empty)
                             ? ctx.emit("Shape", {like})
                             : ctx.constant(Tensor::of<int64_t>({rank}, sizes));
  return ctx.emit("Reshape", {grad, target}, {{"allowzero", int64_t{1}}});
}

// With a constant shape, the gradient op does not refer to `like`, so the backward pass does not
// keep its memory.
ValueId shape_or_like(GradientContext& ctx, ValueId like) {
  const auto shape = ctx.type(like).shape.concrete();
  if (!shape) return like;
  return ctx.constant(Tensor::of<int64_t>({shape->rank()}, {shape->begin(), shape->end()}));
}

// A float operand is a `like`: only its type counts.
Result<SymbolicShape> infer_shape_or_like(InferContext& ctx, int i) {
  if (!ctx.has_input(i)) return ctx.error(cat("input ", i, ": expected a shape, there is none"));
  if (ctx.dtype(i) != DType::i64) return ctx.shape(i);
  LEAT_ASSIGN_OR_RETURN(const int rank, vector_length(ctx, i));
  const auto sizes = known_sizes(ctx, i);
  if (!sizes) return fresh_shape(ctx, rank);
  return shape_of(ctx, *sizes, cat("input ", i));
}

// The sizes are checked here because inference may have let symbols pass. The memory plan may give
// both values one address; then nothing is copied.
Result<std::unique_ptr<Kernel>> make_copy(const KernelSetup& setup) {
  const size_t bytes = setup.output(0).bytes();
  if (setup.input(0).bytes() != bytes) {
    return invalid_argument(cat(setup.subject,
                                ": expected as many elements as the input has, input ",
                                setup.input(0).shape, ", output ", setup.output(0).shape));
  }
  return make_kernel([bytes](KernelContext& context) {
    if (bytes > 0 && context.outputs[0] != context.inputs[0]) {
      std::memcpy(context.outputs[0], context.inputs[0], bytes);
    }
    return Progress::done;
  });
}

// A default Spread is `whole`, so resizing marks the missing operands as such.
std::vector<ShardingRule> with_whole_operands(std::vector<ShardingRule> rules, size_t inputs) {
  for (ShardingRule& rule : rules) rule.inputs.resize(inputs);
  return rules;
}

}  // namespace leat
