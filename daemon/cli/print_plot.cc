#include "daemon/cli/print_plot.h"

#include <cstdio>

#include "devices/base/text.h"

namespace leat {

void print_plot(std::string_view title, std::span<const Curve> curves, size_t lines,
                ColorMode color) {
  TextPlotSize size{.lines = lines};
  if (const size_t columns = stdout_columns(); columns > 0) size.columns = columns;
  std::fputs(cat(title, "\n", text_plot(curves, size, stdout_color(color))).c_str(), stdout);
}

}  // namespace leat
