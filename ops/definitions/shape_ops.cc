// Ops on shapes: Shape and Size, and the views Reshape, Flatten, Squeeze, Unsqueeze and Identity,
// whose output has the bytes of their input.
#include "ops/definitions/shape_ops.h"

#include <algorithm>

#include "devices/base/text.h"
#include "ops/definitions/definitions.h"
#include "ops/definitions/shapes.h"

namespace leat {
namespace {

// The value is a constant only if all sizes in the range are; else its elements are those sizes.
Status infer_shape(InferContext& ctx) {
  const SymbolicShape& shape = ctx.shape(0);
  const auto [start, end] = shape_range(ctx.attrs(), shape.rank());
  ctx.set_tensor(0, DType::i64, Shape{end - start});
  SizeValues sizes;
  std::vector<int64_t> constants;
  for (int d = start; d < end; ++d) {
    sizes.emplace_back(shape[d]);
    if (shape[d].is_constant()) constants.push_back(shape[d].factor);
  }
  if (constants.size() == sizes.size())
    ctx.set_constant(0, Tensor::of<int64_t>({end - start}, constants));
  else
    ctx.set_sizes(0, std::move(sizes));
  return {};
}

Status infer_size(InferContext& ctx) {
  ctx.set_tensor(0, DType::i64, Shape());
  const SymbolicShape& shape = ctx.shape(0);
  if (const auto concrete = shape.concrete())
    ctx.set_constant(0, Tensor::scalar<int64_t>(concrete->elements()));
  else
    ctx.set_sizes(0, {product(ctx, shape, 0, shape.rank())});
  return {};
}

// --- Reshape ---------------------------------------------------------------------------------

// A number of elements: a constant times symbols.
struct Count {
  int64_t factor = 1;
  std::vector<SymbolId> symbols;

  // Multiplies by a size; false on overflow.
  bool times(Dim dim) {
    const auto next = checked_mul(factor, dim.factor);
    if (!next) return false;
    factor = *next;
    if (!dim.is_constant()) symbols.push_back(dim.symbol);
    return true;
  }
  // Divides by the symbols of `other`; false if one of them is not a factor here.
  bool cancel(const Count& other) {
    for (SymbolId symbol : other.symbols) {
      const auto it = std::find(symbols.begin(), symbols.end(), symbol);
      if (it == symbols.end()) return false;
      symbols.erase(it);
    }
    return true;
  }
};

// The size that -1 stands for: `all` elements divided by `rest`.
Result<Dim> inferred_size(InferContext& ctx, Count all, const Count& rest) {
  // A symbol on both sides cancels. The remaining symbols of `rest` would be a divisor whose value
  // is not known.
  const bool cancelled = all.cancel(rest);
  if (rest.factor == 0) return ctx.error("shape: -1 beside a size of 0 has no answer");
  if (cancelled && all.factor % rest.factor == 0 && all.symbols.size() <= 1) {
    const int64_t factor = all.factor / rest.factor;
    return all.symbols.empty() || factor == 0 ? Dim::of(factor)
                                              : Dim::of_symbol(all.symbols[0], factor);
  }
  if (cancelled && all.symbols.empty()) {
    return ctx.error(cat("shape: ", all.factor, " elements do not divide by ", rest.factor));
  }
  return Dim::of_symbol(ctx.fresh_symbol());  // an unknown size: the kernel checks it
}

// Sizes as in ONNX: 0 copies the input's size unless allowzero is set, and one -1 takes the rest.
// Copied sizes cancel out of the rest, so that an empty batch has one, too.
Status infer_reshape_to(InferContext& ctx, const SizeValues& sizes) {
  const SymbolicShape& in = ctx.shape(0);
  const bool allow_zero = attr_int(ctx.attrs(), "allowzero") != 0;
  const auto text = [&] { return cat("input ", ctx.text(in), " to ", sizes_text(ctx, sizes)); };
  if (sizes.size() > kMaxRank)
    return ctx.error(cat("shape: expected rank at most ", kMaxRank, ", received ", text()));
  Count all, rest, free, free_rest;          // free: without the axes that are copied
  for (Dim dim : in.dims()) all.times(dim);  // validate() has checked the overflow
  for (int d = 0; d < in.rank(); ++d) {
    const auto i = static_cast<size_t>(d);
    const bool copied = !allow_zero && i < sizes.size() && sizes[i] == Dim::of(0);
    if (!copied) free.times(in[d]);
  }
  // Collects the sizes and their product `rest`, without the -1.
  SymbolicShape out;
  int inferred = -1;
  for (size_t d = 0; d < sizes.size(); ++d) {
    Dim dim = sizes[d] ? *sizes[d] : Dim::of_symbol(ctx.fresh_symbol());
    // No constant can be negative but -1, and a symbol is neither 0 nor -1 here.
    const int64_t size = dim.factor;
    if (size == 0 && !allow_zero) {
      if (static_cast<int>(d) >= in.rank())
        return ctx.error("shape: 0 copies a size that is not there: " + text());
      dim = in[static_cast<int>(d)];
    }
    if (size < -1) return ctx.error("shape: expected sizes >= -1: " + text());
    if (size == -1 && inferred >= 0) return ctx.error("shape: expected at most one -1: " + text());
    if (size == -1) inferred = static_cast<int>(d);
    if (size != -1 && !rest.times(dim)) return ctx.error("shape: too many elements: " + text());
    if (size != -1 && (size != 0 || allow_zero)) free_rest.times(dim);
    out.push_back(dim);
  }
  // Without -1, the counts must agree. They can be compared only if neither has symbols; else the
  // kernel compares them.
  if (inferred >= 0) {
    LEAT_ASSIGN_OR_RETURN(const Dim dim, inferred_size(ctx, free, free_rest));
    out.set(inferred, dim);
  } else if (all.symbols.empty() && rest.symbols.empty() && all.factor != rest.factor) {
    return ctx.error(
        cat("shape: expected ", all.factor, " elements, received ", rest.factor, ": ", text()));
  }
  ctx.set_tensor(0, ctx.dtype(0), out);
  return {};
}

// The rank is known from the length of the operand, even if its values are not.
Status infer_reshape(InferContext& ctx) {
  LEAT_ASSIGN_OR_RETURN(const int rank, vector_length(ctx, 1));
  if (const auto sizes = known_sizes(ctx, 1)) return infer_reshape_to(ctx, *sizes);
  LEAT_ASSIGN_OR_RETURN(const SymbolicShape shape, fresh_shape(ctx, rank));
  ctx.set_tensor(0, ctx.dtype(0), shape);
  return {};
}

// --- Flatten, Squeeze, Unsqueeze -------------------------------------------------------------

Status infer_flatten(InferContext& ctx) {
  const SymbolicShape& in = ctx.shape(0);
  int64_t axis = attr_int(ctx.attrs(), "axis", 1);
  if (axis < -in.rank() || axis > in.rank()) {
    return ctx.error(cat("axis: expected in [", -in.rank(), ", ", in.rank(), "], received ", axis));
  }
  if (axis < 0) axis += in.rank();
  const int split = static_cast<int>(axis);
  const Dim outer = product(ctx, in, 0, split), inner = product(ctx, in, split, in.rank());
  ctx.set_tensor(0, ctx.dtype(0), {outer, inner});
  return {};
}

// The number of axes that input i lists. A scalar is one axis, as onnxruntime takes it.
Result<int> axis_count(const InferContext& ctx, int i) {
  if (ctx.shape(i).rank() == 0) return 1;
  return vector_length(ctx, i);
}

// Without axes, every axis of the constant size 1 goes; a symbol stays, although it may be 1.
Status infer_squeeze(InferContext& ctx) {
  const SymbolicShape& in = ctx.shape(0);
  std::vector<int> axes;
  if (ctx.has_input(1)) {
    const auto values = known_ints(ctx, 1);
    if (!values) {
      LEAT_ASSIGN_OR_RETURN(const int count, axis_count(ctx, 1));
      LEAT_ASSIGN_OR_RETURN(const SymbolicShape shape,
                            fresh_shape(ctx, std::max(0, in.rank() - count)));
      ctx.set_tensor(0, ctx.dtype(0), shape);
      return {};
    }
    LEAT_ASSIGN_OR_RETURN(axes, normalize_axes(ctx, *values, in.rank()));
  } else {
    for (int d = 0; d < in.rank(); ++d) {
      if (in[d] == Dim::of(1)) axes.push_back(d);
    }
  }
  SymbolicShape out;
  for (int d = 0; d < in.rank(); ++d) {
    if (std::count(axes.begin(), axes.end(), d) == 0) {
      out.push_back(in[d]);
    } else if (in[d].is_constant() && in[d].factor != 1) {
      return ctx.error(cat("axes: expected a size of 1 at axis ", d, ", input is ", ctx.text(in)));
    }
  }
  ctx.set_tensor(0, ctx.dtype(0), out);
  return {};
}

Status infer_unsqueeze(InferContext& ctx) {
  const SymbolicShape& in = ctx.shape(0);
  LEAT_ASSIGN_OR_RETURN(const int count, axis_count(ctx, 1));
  const int rank = in.rank() + count;
  if (rank > kMaxRank)
    return ctx.error(cat("axes: expected rank at most ", kMaxRank, ", received ", rank));
  const auto values = known_ints(ctx, 1);
  if (!values) {
    LEAT_ASSIGN_OR_RETURN(const SymbolicShape shape, fresh_shape(ctx, rank));
    ctx.set_tensor(0, ctx.dtype(0), shape);
    return {};
  }
  LEAT_ASSIGN_OR_RETURN(const std::vector<int> axes, normalize_axes(ctx, *values, rank));
  SymbolicShape out;
  for (int d = 0, from = 0; d < rank; ++d) {
    const bool added = std::count(axes.begin(), axes.end(), d) > 0;
    out.push_back(added ? Dim::of(1) : in[from++]);
  }
  ctx.set_tensor(0, ctx.dtype(0), out);
  return {};
}

// --- what the views share --------------------------------------------------------------------

Status reshape_gradient(GradientContext& ctx) {
  ctx.set_grad(0, reshape_to(ctx, ctx.grad(0), ctx.input(0)));
  return {};
}

// An axis of the input and an axis of the output are split together if their outer sizes agree and
// one size divides the other: equal shards of one are equal shards of the other then.
std::vector<ShardingRule> shard_view(const std::vector<OperandType>& inputs,
                                     const std::vector<OperandType>& outputs, const Attrs&) {
  const Shape &in = inputs[0].shape, &out = outputs[0].shape;
  std::vector<ShardingRule> rules;
  for (int i = 0; i < in.rank(); ++i) {
    for (int o = 0; o < out.rank(); ++o) {
      if (in[i] <= 1 || out[o] <= 1 || in.elements(0, i) != out.elements(0, o)) continue;
      if (in[i] % out[o] == 0 || out[o] % in[i] == 0)
        rules.push_back({{Spread::on(i)}, {Spread::on(o)}});
    }
  }
  rules.push_back({{Spread::sum()}, {Spread::sum()}});
  return with_whole_operands(std::move(rules), inputs.size());
}

Op view_op(std::string_view name, int since) {
  return Op(name, since)
      .view()
      .moves()
      .type("T", kStoredTypes)
      .in_place(0, 0)
      .gradient(reshape_gradient)
      .sharding(shard_view);
}

}  // namespace

void register_shape_ops(Catalogue& catalogue) {
  catalogue.add(Op("Shape", 19)
                    .input("data", "T")
                    .output("shape", "int64")
                    .type("T", kStoredTypes)
                    .attr("start", int64_t{0})
                    .attr_optional("end", "int")
                    .infer(infer_shape));
  catalogue.add(Op("Size", 19)
                    .input("data", "T")
                    .output("size", "int64")
                    .type("T", kStoredTypes)
                    .infer(infer_size));
  catalogue.add(view_op("Reshape", 19)
                    .input("data", "T")
                    .input("shape", "int64")
                    .output("reshaped", "T")
                    .attr("allowzero", int64_t{0})
                    .infer(infer_reshape));
  catalogue.add(view_op("Flatten", 13)
                    .input("input", "T")
                    .output("output", "T")
                    .attr("axis", int64_t{1})
                    .infer(infer_flatten));
  catalogue.add(view_op("Squeeze", 13)
                    .input("data", "T")
                    .optional_input("axes", "int64")
                    .output("squeezed", "T")
                    .infer(infer_squeeze));
  catalogue.add(view_op("Unsqueeze", 13)
                    .input("data", "T")
                    .input("axes", "int64")
                    .output("expanded", "T")
                    .infer(infer_unsqueeze));
  catalogue.add(
      view_op("Identity", 19).input("input", "T").output("output", "T").infer(infer_same_as_first));
}

}  // namespace leat
