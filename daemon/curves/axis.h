// The axes of a plot: a range of numbers, with round numbers as its ticks.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "daemon/curves/metrics_table.h"

namespace leat {

struct Axis {
  double least = 0, greatest = 1;  // least < greatest
  std::vector<double> ticks;       // within the range, ascending

  // The place of a value as a part of the range, 0 to 1.
  double place(double value) const { return (value - least) / (greatest - least); }
};

// The axis of the numbers from `least` to `greatest`, with about `ticks` ticks: multiples of 1, 2
// or 5 times a power of ten. Equal numbers get a range around them.
Axis make_axis(double least, double greatest, int ticks);

// The axes that show all points of the curves; from 0 to 1 if there is none.
struct Axes {
  Axis steps, values;
};
Axes axes_of(std::span<const Curve> curves, int step_ticks, int value_ticks);

// A tick for people: "0.25", "1200", "3e-05".
std::string tick_text(double value);

}  // namespace leat
