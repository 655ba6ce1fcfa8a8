// ONNX's FlexAttention, whose node brings along the graphs that change its scores and its
// probabilities: they become nodes between the products.
//
// Source: ONNX's operator reference, ai.onnx.preview.FlexAttention-1.
#include "ops/text/composite_maker.h"

namespace leat {
namespace {

// The size of `x` along the axis, as a list of one.
DraftName size_along(CompositeMaker& m, const DraftName& x, int64_t axis) {
  return m.op("Shape", {x}, {{"start", Attr(axis)}, {"end", Attr(axis + 1)}});
}

// Each head of x [B, Hkv, S, E] as often as heads of Q share it: [B, Hq, S, E].
DraftName repeated(CompositeMaker& m, const DraftName& x, const DraftName& q) {
  const DraftName times = m.op("Div", {size_along(m, q, 1), size_along(m, x, 1)});
  const DraftName apart = m.op("Unsqueeze", {x, m.ints({2})});
  const DraftName wide = m.op("Expand", {apart, m.concat({m.ints({1, 1}), times, m.ints({1, 1})})});
  return m.reshaped(wide, m.concat({size_along(m, x, 0), size_along(m, q, 1), size_along(m, x, 2),
                                    size_along(m, x, 3)}));
}

}  // namespace

void make_flex_attention(CompositeMaker& m) {
  const DraftName q = m.in(0), k = repeated(m, m.in(1), q), v = repeated(m, m.in(2), q);
  // Each operand gets the root of the factor, so that no product leaves the range of its type.
  DraftName root;
  if (m.has_attribute("scale")) {
    root = m.op("Sqrt", {m.scalar(m.number("scale", 1), q)});
  } else {
    const DraftName columns =
        m.op("Squeeze", {m.op("CastLike", {size_along(m, q, 3), q}), m.ints({0})});
    root = m.op("Sqrt", {m.op("Reciprocal", {m.op("Sqrt", {columns})})});
  }
  const DraftName turned =
      m.op("Transpose", {k}, {{"perm", Attr(std::vector<int64_t>{0, 1, 3, 2})}});
  const DraftName product = m.op("MatMul", {m.op("Mul", {q, root}), m.op("Mul", {turned, root})});
  const bool given = m.has_attribute("softmax_precision");
  const int64_t precision = m.integer("softmax_precision", 0);
  DraftName scores =
      given ? m.op("Cast", {product}, {{"to", Attr(precision)}}) : m.op("leat.Widen", {product});
  if (m.has_attribute("score_mod")) scores = m.inlined("score_mod", {scores});
  DraftName parts = m.op("Softmax", {scores}, {{"axis", Attr(int64_t{-1})}});
  if (m.has_attribute("prob_mod")) parts = m.inlined("prob_mod", {parts});
  m.op("CastLike", {m.op("MatMul", {parts, m.op("CastLike", {v, parts})}), q});
}

}  // namespace leat
