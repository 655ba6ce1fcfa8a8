// Transforms of images. Geometry and colours of single images are ops of Leat's own, whose operands
// are drawn here: ops/definitions/image.h.
#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "devices/base/text.h"
#include "ops/definitions/image.h"
#include "scheduler/recipes/transform_entries.h"

namespace leat::transforms {
namespace {

// One number counts for both sides.
std::array<int64_t, 2> two_of(const Transform& t, std::string_view argument) {
  const std::vector<double>& list = t.list(argument);
  return {static_cast<int64_t>(list.front()), static_cast<int64_t>(list.back())};
}

// The value at the last two axes, from `begin` on.
ValueId cut(TransformBuilder& b, std::array<int64_t, 2> begin, std::array<int64_t, 2> size) {
  return b.op("Slice",
              {b.value(), b.integers({begin[0], begin[1]}),
               b.integers({begin[0] + size[0], begin[1] + size[1]}), b.integers({-2, -1})});
}

// A part of each image, at places of [rows, 4].
void place(TransformBuilder& b, ValueId places, std::array<int64_t, 2> size, double fill) {
  b.set(b.op("leat.CropImages", {b.value(), b.cast(places, DType::i64)},
             {{"height", size[0]}, {"width", size[1]}, {"fill", fill}}));
}

// Applies steps to each image: kinds and values of [rows, steps].
void augment(TransformBuilder& b, ValueId kinds, ValueId values) {
  const Shape row = b.row();
  const std::vector<int64_t> flat{b.setting().rows, row.rank() == 3 ? row[0] : 1, b.height(),
                                  b.width()};
  const bool gray = row.rank() == 2;
  const ValueId images = gray ? b.reshape(b.value(), flat) : b.value();
  const ValueId made = b.op("leat.AugmentImages", {images, kinds, values});
  b.set(gray ? b.reshape(made, {flat[0], flat[2], flat[3]}) : made);
}

constexpr size_t kNearestMode = 2, kAreaMode = 3;  // lanczos is behind them

// The attributes of leat.ResizeImages and leat.DecodeImages without the size, and the numbers of a
// random part, kNone without one.
struct ResizedHow {
  Attrs attrs;
  ValueId draws = kNone;
};

ResizedHow how_resized(const Transform& t) {
  static constexpr const char* kModes[] = {"bilinear", "bicubic", "nearest", "area", "lanczos"};
  return {{{"mode", std::string(kModes[static_cast<size_t>(t.integer("mode"))])}}, kNone};
}

// Images, or files of images that are not decoded yet, become images of this size.
void resize_images(TransformBuilder& b, std::array<int64_t, 2> size, const ResizedHow& how) {
  std::vector<ValueId> inputs{b.value()};
  if (how.draws != kNone) inputs.push_back(how.draws);
  Attrs attrs = how.attrs;
  attrs["height"] = size[0], attrs["width"] = size[1];
  BatchColumn& column = *b.column();
  if (column.encoded > 0) {
    attrs["channels"] = column.encoded;
    column.encoded = 0;
    return b.set(b.op("leat.DecodeImages", std::move(inputs), std::move(attrs)));
  }
  b.set(b.op("leat.ResizeImages", std::move(inputs), std::move(attrs)));
}

// Entries of a table of [n] at indices of [rows, k].
ValueId look_up(TransformBuilder& b, std::vector<double> table, ValueId index) {
  return b.op("Gather", {b.f32(std::move(table)), index});
}

// Whole numbers from 0 to n - 1, with equal chances, from uniform numbers.
ValueId whole_below(TransformBuilder& b, ValueId uniform, double n) {
  return b.cast(b.op("Floor", {b.op("Mul", {uniform, b.f32({n})})}), DType::i64);
}

// The steps of RandAugment with their values at a magnitude: base + sign * value, where the sign is
// drawn if the step has one. Source: Cubuk et al., RandAugment (2020), with torchvision's ranges.
struct RandAugmentTable {
  std::vector<int64_t> kinds;
  std::vector<double> base, value, is_signed;
  void add(ImageStep step, double of_base, double of_value, bool has_sign) {
    kinds.push_back(static_cast<int64_t>(step));
    base.push_back(of_base);
    value.push_back(of_value);
    is_signed.push_back(has_sign ? 1 : 0);
  }
};

RandAugmentTable rand_augment_table(const Transform& t, int64_t height, int64_t width) {
  const double bins = t.number("num_magnitude_bins");
  const double part = std::min(t.number("magnitude") / (bins - 1), 1.0);  // of the largest one
  const auto shift = [&](int64_t size) {
    return std::trunc(150.0 / 331.0 * static_cast<double>(size) * part);
  };
  RandAugmentTable table;
  table.add(ImageStep::none, 0, 0, false);
  table.add(ImageStep::shear_x, 0, 0.3 * part, true);
  table.add(ImageStep::shear_y, 0, 0.3 * part, true);
  table.add(ImageStep::translate_x, 0, shift(width), true);
  table.add(ImageStep::translate_y, 0, shift(height), true);
  table.add(ImageStep::rotate, 0, 30 * part, true);
  for (const ImageStep step :
       {ImageStep::brightness, ImageStep::saturation, ImageStep::contrast, ImageStep::sharpness})
    table.add(step, 1, 0.9 * part, true);
  table.add(ImageStep::posterize, 8, -std::nearbyint(4 * part), false);
  table.add(ImageStep::solarize, 1, -part, false);
  table.add(ImageStep::auto_contrast, 0, 0, false);
  table.add(ImageStep::equalize, 0, 0, false);
  return table;
}

// All orders of the numbers from 0 to 3, [24,4].
ValueId orders_of_four(TransformBuilder& b) {
  std::vector<int64_t> order{0, 1, 2, 3}, all;
  do all.insert(all.end(), order.begin(), order.end());
  while (std::next_permutation(order.begin(), order.end()));
  return b.graph().constant(Tensor::of<int64_t>({24, 4}, all));
}

}  // namespace

Status flip(TransformBuilder& b, const Transform& t) {
  LEAT_RETURN_IF_ERROR(b.check_image());
  const ValueId flips =
      b.cast(with_probability(b, b.draw_rows(1), t.number("probability")), DType::f32);
  const bool horizontal = t.integer("axis") == 0;
  const double vertical = horizontal ? 0 : 1;
  place(b, b.op("Mul", {flips, b.f32({0, 0, vertical, 1 - vertical})}), {b.height(), b.width()}, 0);
  return {};
}

Status crop(TransformBuilder& b, const Transform& t) {
  LEAT_RETURN_IF_ERROR(b.check_image());
  const auto size = two_of(t, "size");
  if (size[0] > b.height() || size[1] > b.width()) {
    return b.error(cat("size: expected at most ", b.height(), " by ", b.width(),
                       ", the size of the images, received ", size[0], " by ", size[1]));
  }
  const auto begin = [](int64_t whole, int64_t part) {
    return static_cast<int64_t>(std::nearbyint(static_cast<double>(whole - part) / 2));
  };
  b.set(cut(b, {begin(b.height(), size[0]), begin(b.width(), size[1])}, size));
  return {};
}

// One number for all sides, two for left and right and for top and bottom, or left, top, right,
// bottom.
Status pad(TransformBuilder& b, const Transform& t) {
  LEAT_RETURN_IF_ERROR(b.check_image());
  std::vector<double> sides = t.list("padding");
  if (sides.size() == 3) return b.error("padding: expected 1, 2 or 4 numbers, received 3");
  if (sides.size() == 1) sides.resize(4, sides[0]);
  if (sides.size() == 2) sides.insert(sides.end(), {sides[0], sides[1]});
  const int rank = b.row().rank() + 1;
  std::vector<int64_t> pads(static_cast<size_t>(rank) * 2, 0);
  const auto at = [&](int i) -> int64_t& { return pads[static_cast<size_t>(i)]; };
  at(rank - 1) = static_cast<int64_t>(sides[0]), at(rank - 2) = static_cast<int64_t>(sides[1]);
  at(2 * rank - 1) = static_cast<int64_t>(sides[2]);
  at(2 * rank - 2) = static_cast<int64_t>(sides[3]);
  static constexpr const char* kModes[] = {"constant", "reflect", "edge"};
  const auto mode = static_cast<size_t>(t.integer("mode"));
  std::vector<ValueId> inputs{b.value(), b.integers(std::move(pads))};
  if (mode == 0) inputs.push_back(b.graph().scalar(b.dtype(), t.number("fill")));
  b.set(b.op("Pad", std::move(inputs), {{"mode", std::string(kModes[mode])}}));
  return {};
}

Status random_crop(TransformBuilder& b, const Transform& t) {
  LEAT_RETURN_IF_ERROR(b.check_image());
  const std::array<int64_t, 2> whole{b.height(), b.width()};
  std::array<int64_t, 2> size = two_of(t, "size");
  const std::array<int64_t, 2> padding = two_of(t, "padding");
  std::array<double, 2> choices;
  for (size_t d = 0; d < 2; ++d) {
    if (size[d] == 0) size[d] = whole[d];
    const int64_t most = whole[d] + 2 * padding[d];
    if (size[d] > most) {
      return b.error(cat("size: expected at most ", most,
                         ", the side of the padded images, received ", size[d]));
    }
    choices[d] = static_cast<double>(most - size[d] + 1);
  }
  // The first two numbers of a place are top and left; those to turn the image stay 0.
  const ValueId drawn =
      b.op("Floor", {b.op("Mul", {b.draw_rows(4), b.f32({choices[0], choices[1], 0, 0})})});
  const auto before = std::array{static_cast<double>(padding[0]), static_cast<double>(padding[1])};
  place(b, b.op("Sub", {drawn, b.f32({before[0], before[1], 0, 0})}), size, t.number("fill"));
  return {};
}

Status decode(TransformBuilder& b, const Transform& t) {
  if (b.dtype() != DType::u8 || b.row().rank() != 1) {
    return b.error(cat("column '", b.column()->name,
                       "': expected the bytes of files of images, uint8[SIZE], as the key bytes of "
                       "a column makes them, received ",
                       b.dtype(), b.row()));
  }
  b.column()->encoded = t.integer("colours") == 0 ? 3 : 1;
  const auto size = two_of(t, "size");
  if ((size[0] > 0) != (size[1] > 0))
    return b.error(
        cat("size: expected [HEIGHT, WIDTH] or none, received [", size[0], ", ", size[1], "]"));
  if (size[0] == 0 && t.integer("mode") != 0)
    return b.error("mode: expected with a size, received without one");
  if (size[0] > 0) resize_images(b, size, how_resized(t));
  return {};
}

// In training a part is drawn, else it is the largest one in the middle.
Status random_resized_crop(TransformBuilder& b, const Transform& t) {
  if (b.column()->encoded == 0) LEAT_RETURN_IF_ERROR(b.check_image());
  if (b.column()->encoded == 0 && b.dtype() != DType::u8) b.to_floats();
  const auto &scale = t.list("scale"), &ratio = t.list("ratio");
  if (scale[0] > scale[1] || ratio[0] > ratio[1])
    return b.error("scale and ratio: expected [LEAST, MOST]");
  ResizedHow how = how_resized(t);
  how.attrs["crop"] = std::string(b.setting().in_training ? "random" : "center");
  if (b.setting().in_training) {
    how.attrs["scale"] = scale, how.attrs["ratio"] = ratio;
    how.draws = b.draw_rows(kPartDrawCount);
  }
  resize_images(b, two_of(t, "size"), how);
  return {};
}

// Bytes become floats, unless they were just decoded or the job keeps them.
Status resize(TransformBuilder& b, const Transform& t) {
  const auto size = two_of(t, "size");
  const auto mode = static_cast<size_t>(t.integer("mode"));
  const bool antialias = mode != kNearestMode && t.integer("antialias") != 0;
  const bool keeps = b.column()->encoded > 0 || t.integer("keep_bytes") != 0;
  if (b.column()->encoded == 0) {
    LEAT_RETURN_IF_ERROR(b.check_image());
    if (keeps && b.dtype() != DType::u8) {
      return b.error(cat("keep_bytes: expected it of a column of uint8, received column '",
                         b.column()->name, "' of ", b.dtype()));
    }
    if (!keeps) b.to_floats();
  }
  if (keeps || mode >= kAreaMode) {
    if (!antialias && mode != kNearestMode) {
      return b.error(
          "antialias: expected true, as Pillow has it, with area, lanczos and bytes that stay "
          "bytes, received false");
    }
    resize_images(b, size, how_resized(t));
    return {};
  }
  static constexpr const char* kModes[] = {"linear", "cubic", "nearest"};
  Attrs attrs{{"mode", std::string(kModes[mode])}, {"axes", std::vector<int64_t>{-2, -1}}};
  if (mode == kNearestMode) attrs["nearest_mode"] = std::string("round_prefer_ceil");
  // As Pillow and torchvision: weights within the image add up to 1.
  if (antialias) attrs["antialias"] = attrs["exclude_outside"] = int64_t{1};
  if (mode == 1) attrs["cubic_coeff_a"] = antialias ? -0.5 : -0.75;
  b.set(b.op("Resize", {b.value(), kNone, kNone, b.integers({size[0], size[1]})}, attrs));
  return {};
}

// Each image has factors of its own, and an order of its own for the four steps.
Status color_jitter(TransformBuilder& b, const Transform& t) {
  LEAT_RETURN_IF_ERROR(b.to_colours());
  std::vector<double> low, range;
  for (const char* name : {"brightness", "contrast", "saturation"}) {
    const double strength = t.number(name);
    low.push_back(std::max(0.0, 1 - strength));
    range.push_back(1 + strength - low.back());
  }
  low.push_back(-t.number("hue"));
  range.push_back(2 * t.number("hue"));
  const ValueId factors =
      b.op("Add", {b.op("Mul", {b.draw_rows(4), b.f32(std::move(range))}), b.f32(std::move(low))});
  const ValueId which = b.reshape(whole_below(b, b.draw_rows(1), 24), {b.setting().rows});
  const ValueId order = b.op("Gather", {orders_of_four(b), which});
  const ValueId kinds =
      b.op("Add", {order, b.integers({static_cast<int64_t>(ImageStep::brightness)})});
  augment(b, kinds, b.op("GatherElements", {factors, order}, {{"axis", int64_t{1}}}));
  return {};
}

Status rand_augment(TransformBuilder& b, const Transform& t) {
  LEAT_RETURN_IF_ERROR(b.to_colours());
  const RandAugmentTable table = rand_augment_table(t, b.height(), b.width());
  const int64_t steps = t.integer("num_ops");
  const auto choices = static_cast<double>(table.kinds.size());
  const ValueId chosen = whole_below(b, b.draw_rows(steps), choices);
  const ValueId negative = b.cast(with_probability(b, b.draw_rows(steps), 0.5), DType::f32);
  // 1, or -1 for a step with a sign whose draw is negative.
  const ValueId sign = b.op(
      "Sub", {b.f32({1}), b.op("Mul", {b.op("Mul", {negative, look_up(b, table.is_signed, chosen)}),
                                       b.f32({2})})});
  const ValueId values = b.op("Add", {look_up(b, table.base, chosen),
                                      b.op("Mul", {look_up(b, table.value, chosen), sign})});
  augment(b, b.op("Gather", {b.integers(table.kinds), chosen}), values);
  return {};
}

// The box of an image: its area is a share of the image's, its sides have a ratio whose logarithm
// is uniform. A side that is too long is cut down to the image's.
Status random_erasing(TransformBuilder& b, const Transform& t) {
  LEAT_RETURN_IF_ERROR(b.check_image());
  const auto &scale = t.list("scale"), &ratio = t.list("ratio");
  if (scale[0] > scale[1] || ratio[0] > ratio[1])
    return b.error("scale and ratio: expected [LEAST, MOST]");
  const double height = static_cast<double>(b.height()), width = static_cast<double>(b.width());
  const auto between = [&](ValueId draw, double low, double high) {
    return b.op("Add", {b.op("Mul", {draw, b.f32({high - low})}), b.f32({low})});
  };
  const ValueId draws = b.draw_rows(5);
  const ValueId area =
      between(b.pick(draws, 1), scale[0] * height * width, scale[1] * height * width);
  const ValueId aspect =
      b.op("Exp", {between(b.pick(draws, 2), std::log(ratio[0]), std::log(ratio[1]))});
  const auto side = [&](ValueId squared, double most) {
    return b.op("Min", {b.op("Round", {b.op("Sqrt", {squared})}), b.f32({most})});
  };
  const auto inside = [&](ValueId draw, ValueId size, double whole, std::vector<int64_t> shape) {
    std::vector<double> places(static_cast<size_t>(whole));
    std::iota(places.begin(), places.end(), 0.0);
    // As many places as the box has in the image.
    const ValueId choices = b.op("Sub", {b.f32({whole + 1}), size});
    const ValueId begin = b.op("Floor", {b.op("Mul", {draw, choices})});
    const ValueId end = b.op("Add", {begin, size}), at = b.f32(std::move(places));
    const ValueId is = b.op("And", {b.op("GreaterOrEqual", {at, begin}), b.op("Less", {at, end})});
    return b.reshape(is, std::move(shape));
  };
  const int64_t rows = b.setting().rows;
  const bool gray = b.row().rank() == 2;
  const auto shaped = [&](int64_t h, int64_t w) {
    return gray ? std::vector<int64_t>{rows, h, w} : std::vector<int64_t>{rows, 1, h, w};
  };
  const ValueId lines = inside(b.pick(draws, 3), side(b.op("Mul", {area, aspect}), height), height,
                               shaped(b.height(), 1));
  const ValueId columns = inside(b.pick(draws, 4), side(b.op("Div", {area, aspect}), width), width,
                                 shaped(1, b.width()));
  const ValueId erased =
      b.reshape(with_probability(b, b.pick(draws, 0), t.number("probability")), shaped(1, 1));
  const ValueId box = b.op("And", {b.op("And", {lines, erased}), columns});
  b.set(b.op("Where", {box, b.graph().scalar(b.dtype(), t.number("value")), b.value()}));
  return {};
}

}  // namespace leat::transforms
