// ONNX's Col2Im: adds up the windows of images, as the gradient of their extraction does.
//
// Source: ONNX's operator reference, Col2Im-18.
#include "ops/text/composite_maker.h"

namespace leat {

// Inputs: the columns [N, C K, L], the sizes of an image and of a window of K elements, of which L
// fit an image. A transposed convolution with a filter for each element of a window, which has a 1
// there and zeros elsewhere, puts the L values of each element at their places and adds up those
// that meet. It covers the images with their padding, up to the last window.
void make_col2im(CompositeMaker& m) {
  const DraftName x = m.in(0), image = m.in(1), window = m.in(2);
  const std::vector<int64_t> pads = m.integers("pads", {}), strides = m.integers("strides", {}),
                             dilations = m.integers("dilations", {});
  const DraftName one = m.int_scalar(1), nothing = m.op("Sub", {image, image});
  const auto sizes = [&](const std::vector<int64_t>& list, int64_t fallback) {
    return list.empty() ? m.op("Add", {nothing, m.int_scalar(fallback)}) : m.ints(list);
  };
  const size_t axes = pads.size() / 2;
  const DraftName begin = pads.empty() ? nothing : m.ints({pads.begin(), pads.begin() + axes});
  const DraftName after = pads.empty() ? nothing : m.ints({pads.begin() + axes, pads.end()});
  const DraftName step = sizes(strides, 1), apart = sizes(dilations, 1);
  const DraftName reach = m.op("Add", {m.op("Mul", {m.op("Sub", {window, one}), apart}), one});
  const DraftName padded = m.op("Add", {image, m.op("Add", {begin, after})});
  const DraftName places = m.op("Add", {m.op("Div", {m.op("Sub", {padded, reach}), step}), one});
  const DraftName covered = m.op("Add", {m.op("Mul", {m.op("Sub", {places, one}), step}), reach});

  const CompositeMaker::Attributes drop{{"keepdims", Attr(int64_t{0})}};
  const DraftName elements = m.op("ReduceProd", {window}, drop);
  const DraftName count = m.op("Unsqueeze", {elements, m.ints({0})});
  const DraftName unit = m.op("OneHot", {m.op("Range", {m.int_scalar(0), elements, one}), count,
                                         m.constant(Tensor::of<float>({2}, {0, 1}))});
  const DraftName filters =
      m.op("CastLike", {m.op("Reshape", {unit, m.concat({count, m.ints({1}), window})}), x});
  // The channels of all images are images of one channel.
  const DraftName values = m.op("Reshape", {x, m.concat({m.ints({-1}), count, places})});
  CompositeMaker::Attributes attrs;
  if (!strides.empty()) attrs.emplace("strides", Attr(strides));
  if (!dilations.empty()) attrs.emplace("dilations", Attr(dilations));
  const DraftName sums = m.op("ConvTranspose", {values, filters}, attrs);
  // Zeros follow behind the last window. Then the padding is cut off.
  const DraftName axis =
      m.op("Add", {m.op("Range", {m.int_scalar(0), m.op("Size", {image}), one}), m.int_scalar(2)});
  const DraftName whole =
      m.op("Pad", {sums, m.concat({nothing, m.op("Sub", {padded, covered})}), {}, axis});
  const DraftName inner = m.op("Slice", {whole, begin, m.op("Add", {begin, image}), axis});
  const DraftName channels =
      m.op("Div", {m.op("Slice", {m.op("Shape", {x}), m.ints({1}), m.ints({2})}), count});
  m.op("Reshape", {inner, m.concat({m.ints({-1}), channels, image})});
}

}  // namespace leat
