#include "daemon/status/curve_figures.h"

#include <algorithm>
#include <cstdio>

#include "daemon/curves/axis.h"
#include "daemon/status/page_parts.h"
#include "devices/base/text.h"

namespace leat {
namespace {

constexpr double kWidth = 360, kHeight = 170, kLeft = 46, kRight = 8, kTop = 8, kBottom = 22;
constexpr std::string_view kValidation = "val_";

const Curve* find(const std::vector<Curve>& curves, const std::string& label) {
  for (const Curve& curve : curves) {
    if (curve.label == label && !curve.values.empty()) return &curve;
  }
  return nullptr;
}

// The metrics that get a picture: the loss and the accuracy first, the others by name.
std::vector<std::string> metrics_of(const CurvesView& view) {
  std::vector<std::string> names{"loss", "accuracy"};
  const auto add = [&](const Curve& curve) {
    std::string name = curve.label;
    if (name.starts_with(kValidation)) name.erase(0, kValidation.size());
    if (name == "seconds" || std::count(names.begin(), names.end(), name) > 0) return;
    names.push_back(std::move(name));
  };
  for (const Curve& curve : view.of_steps) add(curve);
  for (const Curve& curve : view.of_epochs) add(curve);
  return names;
}

std::string pixel(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", value);
  return text;
}

double x_of(const Axes& axes, double step) {
  return kLeft + axes.steps.place(step) * (kWidth - kLeft - kRight);
}
double y_of(const Axes& axes, double value) {
  return kTop + (1 - axes.values.place(value)) * (kHeight - kTop - kBottom);
}

std::string grid(const Axes& axes) {
  std::string out;
  for (const double tick : axes.values.ticks) {
    const std::string y = pixel(y_of(axes, tick));
    out += cat("<line x1=\"", kLeft, "\" y1=\"", y, "\" x2=\"", kWidth - kRight, "\" y2=\"", y,
               "\"/><text class=\"end\" x=\"", kLeft - 5, "\" y=\"", pixel(y_of(axes, tick) + 3.5),
               "\">", tick_text(tick), "</text>");
  }
  for (const double tick : axes.steps.ticks) {
    out += cat("<text class=\"middle\" x=\"", pixel(x_of(axes, tick)), "\" y=\"", kHeight - 6,
               "\">", tick_text(tick), "</text>");
  }
  return out;
}

std::string line_of(const Curve& curve, const Axes& axes, std::string_view css) {
  std::string points;
  for (size_t i = 0; i < curve.values.size(); ++i) {
    points += cat(i == 0 ? "" : " ", pixel(x_of(axes, curve.steps[i])), ",",
                  pixel(y_of(axes, curve.values[i])));
  }
  // A line of one point shows nothing.
  if (curve.values.size() == 1) {
    return cat("<circle class=\"", css, "\" cx=\"", pixel(x_of(axes, curve.steps[0])), "\" cy=\"",
               pixel(y_of(axes, curve.values[0])), "\" r=\"2\"/>");
  }
  return cat("<polyline class=\"", css, "\" points=\"", points, "\"/>");
}

std::string caption(const std::string& name, const Curve* training, const Curve* validation) {
  std::string out = html_escaped(name);
  if (training) out += cat(" <b class=\"busy\">", tick_text(training->values.back()), "</b>");
  if (validation)
    out += cat(" validation <b class=\"warn\">", tick_text(validation->values.back()), "</b>");
  return out;
}

std::string figure(const CurvesView& view, const std::string& name) {
  const Curve* training = find(view.of_steps, name);
  if (!training) training = find(view.of_epochs, name);
  const Curve* validation = find(view.of_epochs, cat(kValidation, name));
  std::vector<Curve> both;
  for (const Curve* curve : {training, validation}) {
    if (curve) both.push_back(*curve);
  }
  if (both.empty()) return "";
  const Axes axes = axes_of(both, 4, 4);
  return cat("<figure><figcaption>", caption(name, training, validation),
             "</figcaption><svg viewBox=\"0 0 ", kWidth, " ", kHeight,
             "\" role=\"img\" aria-label=\"Curve of ", html_escaped(name), "\">", grid(axes),
             training ? line_of(*training, axes, "training") : "",
             validation ? line_of(*validation, axes, "validation") : "", "</svg></figure>\n");
}

}  // namespace

std::string curve_figures(const CurvesView& view) {
  std::string figures;
  for (const std::string& name : metrics_of(view)) figures += figure(view, name);
  if (figures.empty())
    figures =
        cat("<p class=\"none\">", view.whole ? "No step has ended yet." : "Reading...", "</p>");
  return cat("<h2 id=\"curves\">Curves</h2>\n<div data-part=\"curves\" class=\"curves\">", figures,
             "</div>\n");
}

}  // namespace leat
