#include "daemon/curves/svg_plot.h"

#include <array>
#include <cstdio>

#include "daemon/curves/axis.h"
#include "devices/base/text.h"

namespace leat {
namespace {

// Colours that the colour-blind can tell apart (Okabe and Ito, 2008).
constexpr auto kStrokes =
    std::to_array<const char*>({"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"});
constexpr int kLeft = 64, kRight = 16, kTop = 36, kBottom = 44, kLegendLine = 18;
constexpr size_t kMostBuckets = 1000;

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '&') {
      out += "&amp;";
    } else if (c == '<') {
      out += "&lt;";
    } else if (c == '"') {
      out += "&quot;";
    } else {
      out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
  }
  return out;
}

std::string pixel(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", value);
  return text;
}

// The rectangle of the curves within the picture.
struct Area {
  double left, top, width, height;
  double x(const Axis& axis, double step) const { return left + axis.place(step) * width; }
  double y(const Axis& axis, double value) const { return top + (1 - axis.place(value)) * height; }
};

std::string grid(const Axes& axes, const Area& area) {
  std::string out;
  for (const double tick : axes.values.ticks) {
    const std::string y = pixel(area.y(axes.values, tick));
    out += cat("<line x1=\"", pixel(area.left), "\" y1=\"", y, "\" x2=\"",
               pixel(area.left + area.width), "\" y2=\"", y, "\"/><text x=\"", pixel(area.left - 8),
               "\" y=\"", y, "\" text-anchor=\"end\" dominant-baseline=\"middle\">",
               tick_text(tick), "</text>\n");
  }
  const std::string bottom = pixel(area.top + area.height);
  for (const double tick : axes.steps.ticks) {
    const std::string x = pixel(area.x(axes.steps, tick));
    out += cat("<line x1=\"", x, "\" y1=\"", pixel(area.top), "\" x2=\"", x, "\" y2=\"", bottom,
               "\"/><text x=\"", x, "\" y=\"", pixel(area.top + area.height + 18),
               "\" text-anchor=\"middle\">", tick_text(tick), "</text>\n");
  }
  return out;
}

std::string path_of(const Curve& curve, const Axes& axes, const Area& area, const char* stroke) {
  std::string points;
  const Curve shown = thinned(curve, kMostBuckets);
  for (size_t i = 0; i < shown.values.size(); ++i) {
    points += cat(i == 0 ? "" : " ", pixel(area.x(axes.steps, shown.steps[i])), ",",
                  pixel(area.y(axes.values, shown.values[i])));
  }
  return cat("<polyline class=\"curve\" stroke=\"", stroke, "\" points=\"", points, "\"><title>",
             escaped(curve.label), "</title></polyline>\n");
}

}  // namespace

std::string svg_plot(std::span<const Curve> curves, const std::string& title,
                     const SvgPlotSize& size) {
  const int legend = curves.size() > 1 ? static_cast<int>(curves.size()) * kLegendLine : 0;
  const int height = size.height + legend;
  const Area area{kLeft, kTop, static_cast<double>(size.width - kLeft - kRight),
                  static_cast<double>(size.height - kTop - kBottom)};
  const Axes axes = axes_of(curves, 8, 6);
  std::string out = cat(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 ", size.width, " ", height,
      "\" width=\"", size.width, "\" height=\"", height, "\" role=\"img\" aria-label=\"",
      escaped(title),
      "\">\n<style>svg{background:#fff}text{font:12px sans-serif;fill:#333}line{stroke:#ddd}"
      ".curve{fill:none;stroke-width:1.5}@media(prefers-color-scheme:dark){svg{background:#1b1b1b}"
      "text{fill:#ccc}line{stroke:#3a3a3a}}</style>\n");
  out += cat("<text x=\"", kLeft, "\" y=\"22\" style=\"font-size:15px\">", escaped(title),
             "</text>\n");
  out += grid(axes, area);
  out += cat("<text x=\"", pixel(area.left + area.width), "\" y=\"",
             pixel(area.top + area.height + 36), "\" text-anchor=\"end\">step</text>\n");
  for (size_t i = 0; i < curves.size(); ++i)
    out += path_of(curves[i], axes, area, kStrokes[i % kStrokes.size()]);
  for (size_t i = 0; i < curves.size() && legend > 0; ++i) {
    const int y = size.height + static_cast<int>(i) * kLegendLine;
    out += cat("<line x1=\"", kLeft, "\" y1=\"", y, "\" x2=\"", kLeft + 24, "\" y2=\"", y,
               "\" style=\"stroke:", kStrokes[i % kStrokes.size()], ";stroke-width:2\"/><text x=\"",
               kLeft + 32, "\" y=\"", y + 4, "\">", escaped(curves[i].label), "</text>\n");
  }
  return out + "</svg>\n";
}

}  // namespace leat
