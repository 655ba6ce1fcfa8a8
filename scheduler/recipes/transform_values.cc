// Transforms of rows of any shape: types, statistics, and mixtures of two rows.
#include <algorithm>
#include <array>
#include <cmath>

#include "devices/base/text.h"
#include "scheduler/recipes/transform_entries.h"

namespace leat::transforms {
namespace {

constexpr int kQuantiles = 4097;
constexpr std::array kCastTypes = {DType::f32, DType::f64, DType::f16, DType::bf16,
                                   DType::u8,  DType::i32, DType::i64};

struct Statistics {
  std::vector<double> mean, std;
};
// Of colours from 0 to 1, as torchvision and timm have them.
const Statistics& statistics_of(size_t index) {
  static const Statistics kKnown[] = {{{0.485, 0.456, 0.406}, {0.229, 0.224, 0.225}},
                                      {{0.4914, 0.4822, 0.4465}, {0.2470, 0.2435, 0.2616}},
                                      {{0.1307}, {0.3081}}};
  return kKnown[index - 1];
}

// The continued fraction of the incomplete beta function, by Lentz's method. Source: Press et al.,
// Numerical Recipes (1992), 6.4.
double beta_fraction(double a, double b, double x) {
  constexpr double kTiny = 1e-300;
  const auto away = [](double v) { return std::abs(v) < kTiny ? kTiny : v; };
  double c = 1, d = 1 / away(1 - (a + b) * x / (a + 1)), h = d;
  for (int m = 1; m <= 500; ++m) {
    const double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
    d = 1 / away(1 + even * d);
    c = away(1 + even / c);
    h *= d * c;
    const double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
    d = 1 / away(1 + odd * d);
    c = away(1 + odd / c);
    h *= d * c;
    if (std::abs(d * c - 1) < 1e-14) break;
  }
  return h;
}

// The probability of a number of Beta(a, a) below x <= 1/2.
double beta_below(double a, double x) {
  if (x <= 0) return 0;
  const double log_front =
      std::lgamma(2 * a) - 2 * std::lgamma(a) + a * std::log(x) + a * std::log1p(-x);
  return std::exp(log_front) * beta_fraction(a, a, x) / a;
}

// A number of Beta(alpha, alpha) from a uniform one, [1] of the job's precision. The quantile
// function is a table with straight lines between its points.
ValueId draw_beta(TransformBuilder& b, ValueId uniform, double alpha) {
  std::vector<double> points = beta_quantiles(alpha, kQuantiles), slopes;
  for (int i = 0; i + 1 < kQuantiles; ++i) {
    const auto k = static_cast<size_t>(i);
    slopes.push_back(points[k + 1] - points[k]);
  }
  points.pop_back();
  const ValueId at = b.op("Mul", {uniform, b.f32({kQuantiles - 1})});
  const ValueId whole = b.op("Floor", {at});
  const ValueId index = b.cast(whole, DType::i64);
  const ValueId from = b.op("Gather", {b.f32(std::move(points)), index}),
                slope = b.op("Gather", {b.f32(std::move(slopes)), index});
  return b.op("Add", {from, b.op("Mul", {slope, b.op("Sub", {at, whole})})});
}

// 1 where the number equals the class, else 0. Labels that are no class give zeros alone.
ValueId one_hot_of(TransformBuilder& b, ValueId labels, int64_t classes) {
  std::vector<int64_t> shape{b.setting().rows};
  const Shape row = b.row_of(labels);
  if (row.elements() != 1 || row.rank() > 1) {
    for (const int64_t size : row) shape.push_back(size);
  }
  shape.push_back(1);
  std::vector<int64_t> all(static_cast<size_t>(classes));
  for (size_t k = 0; k < all.size(); ++k) all[k] = static_cast<int64_t>(k);
  const ValueId numbers = b.reshape(b.cast(labels, DType::i64), shape);
  return b.cast(b.op("Equal", {numbers, b.integers(std::move(all))}), b.setting().precision);
}

// first * share + second * (1 - share).
ValueId mix(TransformBuilder& b, ValueId first, ValueId second, ValueId share) {
  const ValueId rest = b.op("Sub", {b.graph().scalar(b.setting().precision, 1), share});
  return b.op("Add", {b.op("Mul", {first, share}), b.op("Mul", {second, rest})});
}

// Labels become shares of classes, and are mixed as the rows are.
Status mix_labels(TransformBuilder& b, const Transform& t, ValueId share) {
  BatchColumn* const labels = b.labels();
  if (!labels) return b.error("expected a column of labels in the data, received none");
  if (!is_float(b.type_of(labels->value).dtype)) {
    const int64_t written = t.integer("classes");
    const int64_t classes = written > 0 ? written : b.setting().classes;
    if (classes < 1)
      return b.error("expected classes: the number of the labels' classes, received none");
    labels->value = one_hot_of(b, labels->value, classes);
  } else if (b.type_of(labels->value).dtype != b.setting().precision) {
    labels->value = b.cast(labels->value, b.setting().precision);
  }
  if (b.graph().status().ok()) labels->value = mix(b, labels->value, b.roll(labels->value), share);
  return {};
}

// The share of the first row: 1 in a batch that is not mixed.
ValueId draw_share(TransformBuilder& b, const Transform& t) {
  const ValueId draws = b.draw_batch(2);
  const auto part = [&](int64_t i) {
    return b.op("Slice", {draws, b.integers({i}), b.integers({i + 1})});
  };
  const ValueId share = draw_beta(b, part(0), t.number("alpha"));
  if (t.number("probability") == 1) return share;
  return b.op("Where", {with_probability(b, part(1), t.number("probability")), share, b.f32({1})});
}

}  // namespace

std::vector<double> beta_quantiles(double alpha, int n) {
  std::vector<double> out(static_cast<size_t>(n));
  for (int i = 0; i <= n / 2; ++i) {
    const double share = static_cast<double>(i) / (n - 1);
    double low = 0, high = 0.5;
    for (int k = 0; k < 60 && i > 0; ++k) {
      // Small alphas have their lower quantiles near 0, where halves of the exponent lead there.
      const double middle = low == 0 && high > 1e-250 ? high * 1e-3 : (low + high) / 2;
      (beta_below(alpha, middle) < share ? low : high) = middle;
    }
    out[static_cast<size_t>(i)] = i == 0 ? 0 : (i == (n - 1) / 2 ? 0.5 : high);
    out[static_cast<size_t>(n - 1 - i)] = 1 - out[static_cast<size_t>(i)];
  }
  return out;
}

Status cast(TransformBuilder& b, const Transform& t) {
  const DType dtype = kCastTypes[static_cast<size_t>(t.integer("dtype"))];
  // Floats of an input have the job's factor.
  if (is_float(dtype) && b.column() != b.labels()) b.to_floats();
  if (b.dtype() != dtype) b.set(b.cast(b.value(), dtype));
  return {};
}

Status normalize(TransformBuilder& b, const Transform& t) {
  const bool known = t.integer("statistics") > 0;
  const auto& mean =
      known ? statistics_of(static_cast<size_t>(t.integer("statistics"))).mean : t.list("mean");
  const auto& std =
      known ? statistics_of(static_cast<size_t>(t.integer("statistics"))).std : t.list("std");
  if (known) {
    LEAT_RETURN_IF_ERROR(b.to_colours());
  } else {
    b.to_floats();
  }
  // Channels are the first dimension of a row.
  const Shape row = b.row();
  const auto fits = [&](const std::vector<double>& list) {
    return list.size() == 1 || (row.rank() > 0 && static_cast<int64_t>(list.size()) == row[0]);
  };
  if (!fits(mean) || !fits(std)) {
    return b.error(cat("mean and std: expected one number, or one for each channel of ", row,
                       ", received ", mean.size(), " and ", std.size()));
  }
  const auto constant = [&](const std::vector<double>& list) {
    Shape shape{static_cast<int64_t>(list.size())};
    for (int d = 1; d < row.rank(); ++d) shape.push_back(1);
    Tensor tensor(b.setting().precision, shape);
    for (size_t i = 0; i < list.size(); ++i) tensor.set(static_cast<int64_t>(i), list[i]);
    return b.graph().constant(std::move(tensor));
  };
  b.set(b.op("Div", {b.op("Sub", {b.value(), constant(mean)}), constant(std)}));
  return {};
}

Status one_hot(TransformBuilder& b, const Transform& t) {
  if (is_float(b.dtype()))
    return b.error(cat("column '", b.column()->name, "': expected integers, received ", b.dtype()));
  b.set(one_hot_of(b, b.value(), t.integer("classes")));
  return {};
}

Status mixup(TransformBuilder& b, const Transform& t) {
  b.to_floats();
  const ValueId share = b.cast(draw_share(b, t), b.setting().precision);
  b.set(mix(b, b.value(), b.roll(b.value()), share));
  return mix_labels(b, t, share);
}

// A box takes the elements of the other row. Its middle is anywhere, its area a share of the image
// as far as the image reaches; the labels have the share of what is left.
Status cutmix(TransformBuilder& b, const Transform& t) {
  LEAT_RETURN_IF_ERROR(b.check_image());
  const auto sizes = std::array{static_cast<double>(b.height()), static_cast<double>(b.width())};
  const ValueId share = draw_share(b, t);
  const ValueId half = b.op("Mul", {b.op("Sqrt", {b.op("Sub", {b.f32({1}), share})}),
                                    b.f32({0.5 * sizes[0], 0.5 * sizes[1]})});
  const ValueId reach = b.op("Floor", {half});
  const ValueId middle =
      b.op("Floor", {b.op("Mul", {b.draw_batch(2), b.f32({sizes[0], sizes[1]})})});
  const ValueId begin = b.op("Max", {b.op("Sub", {middle, reach}), b.f32({0})}),
                end = b.op("Min", {b.op("Add", {middle, reach}), b.f32({sizes[0], sizes[1]})});
  // Which lines, and which columns, are in the box.
  const auto inside = [&](int64_t axis, std::vector<int64_t> shape) {
    std::vector<double> places(static_cast<size_t>(sizes[static_cast<size_t>(axis)]));
    for (size_t i = 0; i < places.size(); ++i) places[i] = static_cast<double>(i);
    const ValueId at = b.floats(std::move(places), std::move(shape));
    const auto side = [&](ValueId of) {
      return b.op("Slice", {of, b.integers({axis}), b.integers({axis + 1})});
    };
    return b.op("And", {b.op("GreaterOrEqual", {at, side(begin)}), b.op("Less", {at, side(end)})});
  };
  const ValueId box = b.op("And", {inside(0, {b.height(), 1}), inside(1, {1, b.width()})});
  b.set(b.op("Where", {box, b.roll(b.value()), b.value()}));
  const ValueId extent = b.op("Sub", {end, begin});
  const ValueId area = b.op("ReduceProd", {extent}, {{"keepdims", int64_t{1}}});
  const ValueId left = b.op("Sub", {b.f32({1}), b.op("Div", {area, b.f32({sizes[0] * sizes[1]})})});
  return mix_labels(b, t, b.cast(left, b.setting().precision));
}

}  // namespace leat::transforms
