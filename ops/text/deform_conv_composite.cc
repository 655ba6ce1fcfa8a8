// ONNX's DeformConv: a convolution whose windows read at places that an operand moves.
//
// Source: ONNX's operator reference, DeformConv-22, and its reference implementation.
#include "ops/text/composite_maker.h"

namespace leat {

// Inputs: x [N,C,S...], the weights [M,C/groups,K...], the offsets, the bias, the mask. The
// elements that the windows read become columns, and each group is a product of its weights and
// columns.
void make_deform_conv(CompositeMaker& m) {
  const DraftName x = m.in(0), weights = m.in(1), offsets = m.in(2);
  const int64_t groups = m.integer("group", 1);
  if (groups < 1) return m.fail(cat("group: expected at least 1, received ", groups));
  const DraftName shape = m.op("Shape", {weights});
  constexpr int64_t kEnd = 1 << 30;
  const DraftName window = m.op("Slice", {shape, m.ints({2}), m.ints({kEnd})});
  CompositeMaker::Attributes attrs{{"offset_group", Attr(m.integer("offset_group", 1))}};
  for (const char* list : {"strides", "pads", "dilations", "kernel_shape"}) {
    const std::vector<int64_t> values = m.integers(list, {});
    if (!values.empty()) attrs.emplace(list, Attr(values));
  }
  std::vector<DraftName> operands{x, offsets, window};
  if (m.has(4)) operands.push_back(m.in(4));
  const DraftName columns = m.op("leat.DeformColumns", operands, attrs);

  const DraftName inner = m.op("ReduceProd", {m.op("Slice", {shape, m.ints({1}), m.ints({kEnd})})});
  const DraftName left = m.op("Reshape", {weights, m.concat({m.ints({groups, -1}), inner})});
  const DraftName sizes = m.op("Slice", {m.op("Shape", {offsets}), m.ints({2}), m.ints({kEnd})});
  const DraftName right = m.op(
      "Reshape", {columns, m.concat({m.ints({0, groups}), inner, m.op("ReduceProd", {sizes})})});
  const DraftName outputs = m.op("Slice", {shape, m.ints({0}), m.ints({1})});
  DraftName y = m.op("MatMul", {left, right});
  if (m.has(3)) {
    const DraftName bias = m.op("Reshape", {m.in(3), m.ints({groups, -1, 1})});
    y = m.op("Add", {y, bias});
  }
  m.op("Reshape", {y, m.concat({m.ints({0}), outputs, sizes})});
}

}  // namespace leat
