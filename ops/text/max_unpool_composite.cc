// ONNX's MaxUnpool: puts the results of a MaxPool back at the places that they came from.
//
// Source: ONNX's operator reference, MaxUnpool-22, and its reference implementation.
#include "ops/text/composite_maker.h"

namespace leat {

// Inputs: x [N,C,S...], its places, and a shape of the output. The places are numbers of elements
// of all N C images of the sizes that the windows give. If the output has another shape, these
// images are cut, or zeros follow behind them.
void make_max_unpool(CompositeMaker& m) {
  const DraftName x = m.in(0), places = m.in(1);
  const std::vector<int64_t> window = m.integers("kernel_shape", {});
  const size_t axes = window.size();
  const std::vector<int64_t> strides = m.integers("strides", std::vector<int64_t>(axes, 1)),
                             pads = m.integers("pads", std::vector<int64_t>(2 * axes, 0));
  if (axes == 0 || strides.size() != axes || pads.size() != 2 * axes) {
    return m.fail(cat("expected a kernel_shape, as many strides and twice as many pads, received ",
                      axes, ", ", strides.size(), " and ", pads.size()));
  }
  std::vector<int64_t> rest;  // what the sizes times the strides lack
  for (size_t d = 0; d < axes; ++d)
    rest.push_back(window[d] - strides[d] - pads[d] - pads[axes + d]);
  const DraftName shape = m.op("Shape", {x}), two = m.ints({2});
  const DraftName sizes = m.op("Slice", {shape, two, m.ints({2 + static_cast<int64_t>(axes)})});
  const DraftName image = m.op("Add", {m.op("Mul", {sizes, m.ints(strides)}), m.ints(rest)});
  const DraftName whole = m.concat({m.op("Slice", {shape, m.ints({0}), two}), image});

  const DraftName flat = m.ints({-1});
  const DraftName zeros = m.op("Reshape", {m.op("ConstantOfShape", {whole}), flat});
  const DraftName values = m.op(
      "ScatterElements",
      {m.op("CastLike", {zeros, x}), m.op("Reshape", {places, flat}), m.op("Reshape", {x, flat})});
  const DraftName images = m.op("Reshape", {values, whole});
  if (!m.has(2)) return;
  const DraftName wanted = m.in(2);
  m.op("Pad", {images, m.concat({m.op("Sub", {whole, whole}), m.op("Sub", {wanted, whole})})});
}

}  // namespace leat
