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

// Adds the metrics that get a picture and are not there yet.
void add_metrics(const CurvesView& view, std::vector<std::string>& names) {
  const auto add = [&](const Curve& curve) {
    std::string name = curve.label;
    if (name.starts_with(kValidation)) name.erase(0, kValidation.size());
    if (name == "seconds" || std::count(names.begin(), names.end(), name) > 0) return;
    names.push_back(std::move(name));
  };
  for (const Curve& curve : view.of_steps) add(curve);
  for (const Curve& curve : view.of_epochs) add(curve);
}

// The first metrics, whatever the order of the others.
std::vector<std::string> first_metrics() { return {"loss", "accuracy"}; }

// The curves of a metric; null for those that there are not.
struct CurvePair {
  const Curve* training = nullptr;
  const Curve* validation = nullptr;
};
CurvePair curves_of(const CurvesView& view, const std::string& name) {
  const Curve* training = find(view.of_steps, name);
  if (!training) training = find(view.of_epochs, name);
  return {training, find(view.of_epochs, cat(kValidation, name))};
}

void add_curves(const CurvePair& pair, std::vector<Curve>& all) {
  for (const Curve* curve : {pair.training, pair.validation}) {
    if (curve) all.push_back(*curve);
  }
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

std::string mark_of(const CurveMark& mark, const Axes& axes) {
  const double place = axes.steps.place(mark.step);
  if (place < 0 || place > 1) return "";
  const std::string x = pixel(x_of(axes, mark.step));
  return cat("<line class=\"mark\" x1=\"", x, "\" y1=\"", kTop, "\" x2=\"", x, "\" y2=\"",
             kHeight - kBottom, "\"><title>", html_escaped(mark.text), "</title></line>");
}

std::string framed(const std::string& name, const std::string& caption, const Axes& axes,
                   const std::string& lines) {
  return cat("<figure><figcaption>", caption, "</figcaption><svg viewBox=\"0 0 ", kWidth, " ",
             kHeight, "\" role=\"img\" aria-label=\"Curve of ", html_escaped(name), "\">",
             grid(axes), lines, "</svg></figure>\n");
}

std::string figure(const CurvesView& view, const std::string& name,
                   std::span<const CurveMark> marks) {
  const CurvePair pair = curves_of(view, name);
  std::vector<Curve> both;
  add_curves(pair, both);
  if (both.empty()) return "";
  const Axes axes = axes_of(both, 4, 4);
  std::string lines;
  for (const CurveMark& mark : marks) lines += mark_of(mark, axes);
  if (pair.training) lines += line_of(*pair.training, axes, "training");
  if (pair.validation) lines += line_of(*pair.validation, axes, "validation");
  return framed(name, caption(name, pair.training, pair.validation), axes, lines);
}

std::string compared_figure(std::span<const ComparedJob> jobs, const std::string& name) {
  std::vector<Curve> all;
  for (const ComparedJob& job : jobs) add_curves(curves_of(job.view, name), all);
  if (all.empty()) return "";
  const Axes axes = axes_of(all, 4, 4);
  std::string lines;
  for (size_t i = 0; i < jobs.size(); ++i) {
    const auto [training, validation] = curves_of(jobs[i].view, name);
    if (training) lines += line_of(*training, axes, cat("job", i));
    if (validation) lines += line_of(*validation, axes, cat("job", i, " dashed"));
  }
  return framed(name, html_escaped(name), axes, lines);
}

std::string part_of(std::string_view first, const std::string& figures, bool whole) {
  const std::string none =
      cat("<p class=\"none\">", whole ? "No step has ended yet." : "Reading...", "</p>");
  return cat("<h2 id=\"curves\">Curves</h2>\n<div data-part=\"curves\">", first,
             "<div class=\"curves\">", figures.empty() ? none : figures, "</div></div>\n");
}

}  // namespace

std::string curve_figures(const CurvesView& view, std::span<const CurveMark> marks) {
  std::vector<std::string> names = first_metrics();
  add_metrics(view, names);
  std::string figures;
  for (const std::string& name : names) figures += figure(view, name, marks);
  return part_of("", figures, view.whole);
}

std::string compared_figures(std::span<const ComparedJob> jobs) {
  std::vector<std::string> names = first_metrics();
  std::string legend = "<p>", figures;
  bool whole = true;
  for (size_t i = 0; i < jobs.size(); ++i) {
    add_metrics(jobs[i].view, names);
    whole = whole && jobs[i].view.whole;
    legend +=
        cat("<svg class=\"key\" viewBox=\"0 0 24 8\" aria-hidden=\"true\"><polyline class=\"job", i,
            "\" points=\"0,4 24,4\"/></svg> <a href=\"", job_path(jobs[i].job), "\">",
            html_escaped(jobs[i].job), "</a> ");
  }
  for (const std::string& name : names) figures += compared_figure(jobs, name);
  return part_of(legend + "<span class=\"faint\">dashed: validation</span></p>", figures, whole);
}

}  // namespace leat
