// ONNX's CausalConvWithState: each channel is a sum over its last elements, and the elements that a
// later call needs are a state.
//
// Source: ONNX's operator reference, CausalConvWithState-27.
#include "ops/text/composite_maker.h"

namespace leat {

// Inputs: x [N,C,L], weights [C,1,K], a bias [C], the last K - 1 elements before x. A table of
// indices cuts out the K elements of each place, and a product adds them up.
void make_causal_conv(CompositeMaker& m) {
  const DraftName x = m.in(0), weights = m.in(1);
  const std::string activation = m.text("activation", "none");
  if (activation != "none" && activation != "silu" && activation != "swish")
    return m.fail(cat("activation: expected none, silu or swish, received '", activation, "'"));
  const DraftName one = m.int_scalar(1), zero = m.int_scalar(0), last = m.ints({2});
  const DraftName shape = m.op("Shape", {weights});
  const DraftName taps = m.op("Gather", {shape, m.int_scalar(2)});
  const DraftName length = m.op("Gather", {m.op("Shape", {x}), m.int_scalar(2)});
  DraftName line;
  if (m.has(3)) {
    line = m.op("Concat", {m.in(3), x}, {{"axis", Attr(int64_t{2})}});
  } else {
    const DraftName before = m.op("Reshape", {m.op("Sub", {taps, one}), m.ints({1})});
    line = m.op("Pad", {x, m.concat({m.ints({0, 0}), before, m.ints({0, 0, 0})})});
  }
  const DraftName first = m.op("Unsqueeze", {m.op("Range", {zero, length, one}), m.ints({1})});
  const DraftName places = m.op("Add", {first, m.op("Range", {zero, taps, one})});
  const DraftName windows = m.op("Gather", {line, places}, {{"axis", Attr(int64_t{2})}});
  const DraftName columns =
      m.op("Reshape",
           {weights, m.concat({m.op("Slice", {shape, m.ints({0}), m.ints({1})}),
                               m.op("Slice", {shape, m.ints({2}), m.ints({3})}), m.ints({1})})});
  DraftName y = m.op("Squeeze", {m.op("MatMul", {windows, columns}), m.ints({3})});
  if (m.has(2)) y = m.op("Add", {y, m.op("Unsqueeze", {m.in(2), m.ints({1})})});
  if (activation != "none") y = m.op("Mul", {y, m.op("Sigmoid", {y})});
  m.set_output(0, y);
  if (!m.wants(1)) return;
  constexpr int64_t kEnd = int64_t{1} << 40;
  const DraftName begin = m.op("Reshape", {length, m.ints({1})});
  m.set_output(1, m.op("Slice", {line, begin, m.ints({kEnd}), last}));
}

}  // namespace leat
