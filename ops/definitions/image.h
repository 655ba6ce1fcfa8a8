// Images in rows: the ops that place and colour each image of a batch by numbers of its own. The
// numbers are operands, so the graph says how they are drawn (scheduler/recipes/transform.h).
#pragma once

#include <cstdint>
#include <string>

#include "devices/base/status.h"
#include "ops/graph/attrs.h"
#include "ops/images/geometry.h"

namespace leat {

// The attributes that leat.ResizeImages and leat.DecodeImages share, as the steps of an image:
// `height` and `width` of the result, `mode`, a filter's name, and `crop`:
//   none    the whole image is resized
//   center  the largest part in the middle that has the result's proportions
//   random  a part that is drawn as torchvision's RandomResizedCrop draws it, from the input
//           `draws`, of kPartDrawCount uniform numbers for each image; `scale` is the range of its
//           area and `ratio` that of its width divided by its height
// invalid_argument for values that are none of these.
Result<ImageGeometry> geometry_of_images(const Attrs& attrs);

// The kinds of steps of leat.AugmentImages. Each has one number, its value. Colours are in [0,1],
// and so are the results; `gray` is 0.2989 red + 0.587 green + 0.114 blue, or the one channel.
// Steps that need red, green and blue do nothing to an image of one channel.
//
// The definitions are those of torchvision.transforms.v2.functional for tensors of floats.
enum class ImageStep : int64_t {
  none = 0,
  brightness = 1,     // value * x
  contrast = 2,       // value * x + (1 - value) * mean of gray
  saturation = 3,     // value * x + (1 - value) * gray
  hue = 4,            // turns the hue by the value, in turns
  sharpness = 5,      // value * x + (1 - value) * blurred x; the border stays
  posterize = 6,      // keeps as many bits of each colour
  solarize = 7,       // inverts colours of at least the value
  auto_contrast = 8,  // stretches each channel to [0,1]
  equalize = 9,       // equalizes the histogram of each channel, as 8-bit colours
  // Those that move elements. An element from outside of the image is 0; the nearest one counts.
  shear_x = 10,      // by the value times the distance from the upper edge
  shear_y = 11,      // by the value times the distance from the left edge
  translate_x = 12,  // to the right by as many elements
  translate_y = 13,  // down by as many elements
  rotate = 14,       // about the centre, against the clock, by the value in degrees
};
inline constexpr int64_t kImageSteps = 15;

}  // namespace leat
