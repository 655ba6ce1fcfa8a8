// Draws curves as a picture in SVG, which browsers, documents and editors show. It follows the
// reader's choice of light or dark, and needs no script and no other file.
#pragma once

#include <span>
#include <string>

#include "daemon/curves/metrics_table.h"

namespace leat {

struct SvgPlotSize {
  int width = 800, height = 450;  // pixels
};

// The text of an SVG file. `title` stands above the curves; the steps are along the axis at the
// bottom. Equal arguments give equal bytes.
std::string svg_plot(std::span<const Curve> curves, const std::string& title,
                     const SvgPlotSize& size = {});

}  // namespace leat
