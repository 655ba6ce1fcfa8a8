// Draws curves with characters, for a terminal.
//
//   2.5 ┤⠑⢄
//   2.0 ┤  ⠑⠢⢄⣀
//   1.5 ┤      ⠉⠉⠒⠒⠤⠤⣀⣀⣀
//       └┬────────┬────────┬
//        0       500     1000
#pragma once

#include <span>
#include <string>

#include "daemon/curves/metrics_table.h"

namespace leat {

struct TextPlotSize {
  size_t columns = 80;  // of the whole, with the numbers at the left; at least 30
  size_t lines = 20;    // of the area of the curves; at least 4
};

// Lines of UTF-8, each with its newline. A curve is drawn with the dots of Braille characters, and
// in a colour of its own if `color`; without colours, several curves are drawn with the letters a,
// b, c... Below the axis stands a line for each curve with its label, if there are several. No
// curve, or curves without points, give an empty area.
std::string text_plot(std::span<const Curve> curves, const TextPlotSize& size, bool color);

}  // namespace leat
