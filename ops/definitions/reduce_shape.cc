#include "ops/definitions/reduce_shape.h"

#include <algorithm>

#include "devices/base/text.h"

namespace leat {
namespace {

constexpr AxisSet bit(int axis) { return AxisSet{1} << axis; }
AxisSet all_axes(int rank) { return bit(rank) - 1; }

}  // namespace

Result<AxisSet> reduced_axes(const InferContext& ctx, int axes_input, int rank) {
  const bool noop = attr_int(ctx.attrs(), "noop_with_empty_axes") != 0;
  if (!ctx.has_input(axes_input)) return noop ? 0 : all_axes(rank);
  const Tensor* axes = ctx.constant(axes_input);
  if (!axes) {
    return ctx.error(cat("input ", axes_input,
                         " 'axes': expected values that are known before anything runs, they are "
                         "computed or fed; the shape of the result follows from them"));
  }
  if (axes->shape().rank() > 1) {
    return ctx.error(cat("axes: expected a list, received shape ", axes->shape()));
  }
  AxisSet set = 0;
  for (int64_t i = 0; i < axes->elements(); ++i) {
    LEAT_ASSIGN_OR_RETURN(const int axis, normalize_axis(ctx, axes->int_at(i), rank));
    if (set & bit(axis))
      return ctx.error(cat("axes: expected each once, received ", axes->int_at(i), " twice"));
    set |= bit(axis);
  }
  if (axes->elements() == 0) return noop ? 0 : all_axes(rank);
  return set;
}

AxisSet reduced_axes(const KernelSetup& setup, int axes_input, int rank) {
  const bool noop = attr_int(setup.attrs(), "noop_with_empty_axes") != 0;
  const Tensor* axes = setup.types.has_input(axes_input) ? setup.constant(axes_input) : nullptr;
  if (!axes || axes->elements() == 0) return noop ? 0 : all_axes(rank);
  AxisSet set = 0;
  for (int64_t i = 0; i < axes->elements(); ++i) {
    const int64_t axis = axes->int_at(i);
    set |= bit(static_cast<int>(axis < 0 ? axis + rank : axis));
  }
  return set;
}

SymbolicShape reduced_shape(const SymbolicShape& shape, AxisSet axes, bool keepdims) {
  SymbolicShape out;
  for (int i = 0; i < shape.rank(); ++i) {
    if (!(axes & bit(i)))
      out.push_back(shape[i]);
    else if (keepdims)
      out.push_back(Dim::of(1));
  }
  return out;
}

std::vector<AxisSet> possible_axes(const Shape& in, const Shape& out, bool keepdims) {
  std::vector<AxisSet> sets;
  if (keepdims) {
    if (in.rank() != out.rank()) return {};
    AxisSet set = 0;
    for (int i = 0; i < in.rank(); ++i) {
      if (in[i] != out[i]) set |= bit(i);
    }
    return {set};
  }
  for (AxisSet set = 0; set <= all_axes(in.rank()); ++set) {
    Shape kept;
    for (int i = 0; i < in.rank(); ++i) {
      if (!(set & bit(i))) kept.push_back(in[i]);
    }
    if (kept == out) sets.push_back(set);
  }
  return sets;
}

bool keeps_rows(const Shape& in, const Shape& out, bool keepdims) {
  if (in.rank() == 0 || out.rank() == 0) return false;
  const auto sets = possible_axes(in, out, keepdims);
  return !sets.empty() &&
         std::none_of(sets.begin(), sets.end(), [](AxisSet set) { return set & 1; });
}

void Loops::add(int64_t size, int64_t stride) {
  sizes[static_cast<size_t>(count)] = size;
  strides[static_cast<size_t>(count)] = stride;
  ++count;
  total *= size;
}

int64_t Loops::offset(int64_t index) const {
  if (count == 1) return index * strides[0];
  int64_t at = 0;
  for (int i = count - 1; i >= 0; --i) {
    at += index % sizes[static_cast<size_t>(i)] * strides[static_cast<size_t>(i)];
    index /= sizes[static_cast<size_t>(i)];
  }
  return at;
}

ReduceShape make_reduce_shape(const Shape& in, AxisSet axes) {
  ReduceShape shape;
  shape.has_rows = in.rank() > 0 && !(axes & 1);
  const int first = shape.has_rows ? 1 : 0;
  if (shape.has_rows) shape.rows = in[0];
  struct Merged {
    int64_t size, stride;
    bool reduced;
  };
  std::vector<Merged> merged;  // innermost first
  for (int i = in.rank() - 1; i >= first; --i) {
    const bool reduced = axes & bit(i);
    (reduced ? shape.folded : shape.row_results) *= in[i];
    if (in[i] != 1) {
      if (!merged.empty() && merged.back().reduced == reduced)
        merged.back().size *= in[i];
      else
        merged.push_back({in[i], shape.row_elements, reduced});
    }
    shape.row_elements *= in[i];
  }
  if (merged.empty()) return shape;
  shape.line = merged[0].size;
  shape.line_reduced = merged[0].reduced;
  for (size_t i = merged.size() - 1; i > 0; --i) {
    (merged[i].reduced ? shape.reduced : shape.kept).add(merged[i].size, merged[i].stride);
  }
  return shape;
}

}  // namespace leat
