#include "ops/definitions/reduce_shape.h"

#include <algorithm>

#include "devices/base/text.h"

namespace leat {
namespace {

// An axis is one bit. The rank is at most kMaxRank (8), so the sets fit in 32 bits.
constexpr AxisSet bit(int axis) { return AxisSet{1} << axis; }
AxisSet all_axes(int rank) { return bit(rank) - 1; }

}  // namespace

// Absent axes and an empty list mean the same: all axes, or none with noop_with_empty_axes.
Result<AxisSet> reduced_axes(const InferContext& ctx, int axes_input, int rank) {
  const bool noop = attr_int(ctx.attrs(), "noop_with_empty_axes") != 0;
  if (!ctx.has_input(axes_input)) return noop ? 0 : all_axes(rank);
  const Tensor* axes = ctx.constant(axes_input);
  // The shape of the output depends on the axes, and fresh symbols cannot stand for a rank that is
  // not known.
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

// Inference has checked the range and refused repeated axes, so the kernel only maps negative axes.
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

// With keepdims a reduced axis stays with size 1, so that the result broadcasts with the input.
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

// Tiling and sharding rules get types without constants, so they guess the axes from the shapes.
// With keepdims the guess is unique, since an axis of size 1 is the same kept or reduced.
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
  // Without keepdims the function tries every subset: at most 2^8 of them.
  for (AxisSet set = 0; set <= all_axes(in.rank()); ++set) {
    Shape kept;
    for (int i = 0; i < in.rank(); ++i) {
      if (!(set & bit(i))) kept.push_back(in[i]);
    }
    if (kept == out) sets.push_back(set);
  }
  return sets;
}

// All guesses must keep axis 0: one that reduces it would make a row of the output depend on all
// rows of the input.
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

// Decomposes `index` into one index per loop, the innermost fastest, and adds up their strides.
int64_t Loops::offset(int64_t index) const {
  if (count == 1) return index * strides[0];
  int64_t at = 0;
  for (int i = count - 1; i >= 0; --i) {
    at += index % sizes[static_cast<size_t>(i)] * strides[static_cast<size_t>(i)];
    index /= sizes[static_cast<size_t>(i)];
  }
  return at;
}

// Rows of a kept axis 0 are apart from the loops, so that a tile of rows runs the same loops at
// another start.
ReduceShape make_reduce_shape(const Shape& in, AxisSet axes) {
  ReduceShape shape;
  shape.has_rows = in.rank() > 0 && !(axes & 1);
  const int first = shape.has_rows ? 1 : 0;
  if (shape.has_rows) shape.rows = in[0];
  struct Merged {
    int64_t size, stride;
    bool reduced;
  };
  // Merges neighbours of the same kind, from the innermost axis outwards. An axis of size 1 is
  // dropped, since it would separate two axes that are contiguous.
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
  // Every axis has one element: the defaults already describe a line of one.
  if (merged.empty()) return shape;
  // The innermost run is the line, which kernels process with vector instructions. The others
  // become loops, outermost first.
  shape.line = merged[0].size;
  shape.line_reduced = merged[0].reduced;
  for (size_t i = merged.size() - 1; i > 0; --i) {
    (merged[i].reduced ? shape.reduced : shape.kept).add(merged[i].size, merged[i].stride);
  }
  return shape;
}

}  // namespace leat
