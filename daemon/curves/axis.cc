#include "daemon/curves/axis.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace leat {

Axis make_axis(double least, double greatest, int ticks) {
  if (!(least < greatest)) {
    const double around = least == 0 ? 1 : std::abs(least) * 0.1;
    greatest = least + around;
    least -= around;
  }
  const double rough = (greatest - least) / std::max(1, ticks);
  const double power = std::pow(10, std::floor(std::log10(rough)));
  double distance = power;
  for (const double factor : {1.0, 2.0, 5.0, 10.0}) {
    distance = factor * power;
    if (distance >= rough) break;
  }
  Axis axis{least, greatest, {}};
  // Ticks are counted, so that no rounding adds up; a part of a distance forgives rounding.
  const double first = std::ceil(least / distance - 1e-9), last = greatest / distance + 1e-9;
  for (double i = first; i <= last && axis.ticks.size() < 100; ++i)
    axis.ticks.push_back(i == 0 ? 0 : i * distance);
  return axis;
}

Axes axes_of(std::span<const Curve> curves, int step_ticks, int value_ticks) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  double bounds[4] = {kInfinity, -kInfinity, kInfinity, -kInfinity};
  const auto widen = [&](const std::vector<double>& numbers, double* to) {
    for (const double number : numbers) {
      to[0] = std::min(to[0], number);
      to[1] = std::max(to[1], number);
    }
  };
  for (const Curve& curve : curves) {
    widen(curve.steps, bounds);
    widen(curve.values, bounds + 2);
  }
  if (bounds[0] > bounds[1]) return {make_axis(0, 1, step_ticks), make_axis(0, 1, value_ticks)};
  return {make_axis(bounds[0], bounds[1], step_ticks),
          make_axis(bounds[2], bounds[3], value_ticks)};
}

std::string tick_text(double value) {
  char text[32];
  // Steps are large and exact; other numbers need few digits.
  std::snprintf(text, sizeof text,
                std::abs(value) >= 1e4 && std::abs(value) < 1e9 ? "%.0f" : "%.4g", value);
  return text;
}

}  // namespace leat
