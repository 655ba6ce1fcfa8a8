// Curves in the terminal, for the commands that draw them.
#pragma once

#include <span>
#include <string_view>

#include "daemon/base/terminal.h"
#include "daemon/curves/text_plot.h"

namespace leat {

// Prints the title and, below it, the curves over each other: as wide as the terminal on stdout, or
// as text_plot() has it for a pipe, and `lines` high.
void print_plot(std::string_view title, std::span<const Curve> curves, size_t lines,
                ColorMode color);

}  // namespace leat
