// ONNX's CenterCropPad: cuts or pads axes around their centre.
//
// Source: ONNX's operator reference, CenterCropPad-18.
#include "ops/text/composite_maker.h"

namespace leat {

// Inputs: x, the sizes of the axes. An odd number of elements to cut, or to add, has the larger
// half behind.
void make_center_crop_pad(CompositeMaker& m) {
  const DraftName x = m.in(0);
  const DraftName wanted = m.op("Cast", {m.in(1)}, {{"to", Attr(int64_t{7})}});
  const std::vector<int64_t> given = m.integers("axes", {});
  const DraftName axes =
      given.empty() ? m.op("Range", {m.int_scalar(0), m.op("Size", {wanted}), m.int_scalar(1)})
                    : m.ints(given);
  const DraftName sizes = m.op("Gather", {m.op("Shape", {x}), axes});
  const DraftName zero = m.int_scalar(0), two = m.int_scalar(2);
  const DraftName kept = m.op("Min", {sizes, wanted});
  const DraftName begin = m.op("Div", {m.op("Sub", {sizes, kept}), two});
  const DraftName inner = m.op("Slice", {x, begin, m.op("Add", {begin, kept}), axes});
  const DraftName missing = m.op("Max", {m.op("Sub", {wanted, sizes}), zero});
  const DraftName before = m.op("Div", {missing, two});
  const DraftName pads = m.concat({before, m.op("Sub", {missing, before})});
  m.op("Pad", {inner, pads, {}, axes});
}

}  // namespace leat
