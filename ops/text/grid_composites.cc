// ONNX's AffineGrid: the places at which GridSample reads an image that an affine map turns.
//
// Source: ONNX's operator reference, AffineGrid-20.
#include <limits>

#include "ops/text/composite_maker.h"

namespace leat {
namespace {

DraftName part(CompositeMaker& m, const DraftName& list, int64_t from, int64_t to) {
  return m.op("Slice", {list, m.ints({from}), m.ints({to})});
}

// The first column of a matrix.
DraftName first_column(CompositeMaker& m, const DraftName& x) {
  return m.op("Slice", {x, m.ints({0}), m.ints({1}), m.ints({1})});
}

}  // namespace

// The sizes are [N,C,H,W] or [N,C,D,H,W]. Number p of all places has on axis d the index
// p / (the product of the later sizes) modulo the size.
void make_affine_grid(CompositeMaker& m) {
  const DraftName theta = m.in(0), sizes = m.in(1), zero = m.int_scalar(0), one = m.int_scalar(1);
  const bool align = m.integer("align_corners", 0) != 0;
  const int64_t end = std::numeric_limits<int64_t>::max();
  const DraftName spatial = part(m, sizes, 2, end), axes = m.op("Shape", {spatial});
  const DraftName axis = m.op("Range", {zero, m.op("Squeeze", {axes, m.ints({0})}), one});
  const DraftName later = m.op(
      "Greater", {m.op("Unsqueeze", {axis, m.ints({0})}), m.op("Unsqueeze", {axis, m.ints({1})})});
  const CompositeMaker::Attributes drop{{"keepdims", Attr(int64_t{0})}};
  const DraftName strides =
      m.op("ReduceProd", {m.op("Where", {later, spatial, one}), m.ints({1})}, drop);
  const DraftName places = m.op("Range", {zero, m.op("ReduceProd", {spatial}, drop), one});
  const DraftName index =
      m.op("Mod", {m.op("Div", {m.op("Unsqueeze", {places, m.ints({1})}), strides}), spatial});
  const auto real = [&](const DraftName& x) { return m.op("CastLike", {x, theta}); };
  const DraftName two = m.scalar(2, theta), unit = m.scalar(1, theta);
  const DraftName twice = m.op("Mul", {real(index), two}), size = real(spatial);
  // From -1 to 1: the centres of the outer elements with align_corners, else their edges. A single
  // element is at 0.
  const DraftName single = real(m.op("Equal", {spatial, one}));
  const DraftName distance = align ? m.op("Div", {m.op("Add", {twice, single}),
                                                  m.op("Max", {m.op("Sub", {size, unit}), unit})})
                                   : m.op("Div", {m.op("Add", {twice, unit}), size});
  const DraftName coordinates = m.op("Sub", {distance, unit});
  // The map takes the coordinates from the last axis to the first, and 1.
  const DraftName turned =
      m.op("Slice", {coordinates, m.ints({-1}), m.ints({-end}), m.ints({1}), m.ints({-1})});
  const DraftName column =
      m.op("Add", {m.op("Mul", {first_column(m, turned), m.scalar(0, theta)}), unit});
  const DraftName all = m.op("Concat", {turned, column}, {{"axis", Attr(int64_t{1})}});
  const std::vector<int64_t> perm{0, 2, 1};
  const DraftName product =
      m.op("MatMul", {all, m.op("Transpose", {theta}, {{"perm", Attr(perm)}})});
  m.op("Reshape", {product, m.op("Concat", {part(m, sizes, 0, 1), spatial, axes},
                                 {{"axis", Attr(int64_t{0})}})});
}

}  // namespace leat
