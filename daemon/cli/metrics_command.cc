// leat metrics, leat plot: the numbers of a training as tables and as curves.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>

#include "daemon/base/exit_code.h"
#include "daemon/base/json_line.h"
#include "daemon/cli/curve_commands.h"
#include "daemon/cli/event_export.h"
#include "daemon/cli/filter_program.h"
#include "daemon/cli/print_plot.h"
#include "daemon/cli/run_source.h"
#include "daemon/cli/table.h"
#include "daemon/curves/svg_plot.h"
#include "daemon/status/status_json.h"
#include "devices/base/files.h"
#include "devices/base/text.h"

namespace leat {
namespace {

constexpr auto kDraws = std::chrono::milliseconds(30'000);  // for the program that draws a PNG

// A field of a CSV file, RFC 4180. Numbers that a row lacks are empty.
std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  std::string out = "\"";
  for (const char c : text) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + "\"";
}

std::string csv_of(const MetricsRows& rows, bool epochs) {
  std::string out = epochs ? "epoch,step" : "step";
  for (const std::string& name : rows.names) out += "," + csv_field(name);
  out += "\n";
  for (size_t i = 0; i < rows.size(); ++i) {
    if (epochs) out += cat(rows.epochs[i], ",");
    out += cat(rows.steps[i]);
    for (const double value : rows.values[i])
      out += std::isnan(value) ? std::string(",") : cat(",", shortest(value));
    out += "\n";
  }
  return out;
}

void print_json_rows(const MetricsRows& rows) {
  JsonLine line;
  for (size_t i = 0; i < rows.size(); ++i) {
    line.clear();
    if (rows.epochs[i] > 0) line.add("epoch", rows.epochs[i]);
    line.add("step", rows.steps[i]);
    for (size_t n = 0; n < rows.names.size(); ++n) {
      if (!std::isnan(rows.values[i][n])) line.add(rows.names[n], rows.values[i][n]);
    }
    std::fputs(line.text().c_str(), stdout);
  }
}

std::string rounded(double value) {
  if (std::isnan(value)) return "-";
  char text[32];
  std::snprintf(text, sizeof text, "%.4f", value);
  return text;
}

std::string epoch_table(const MetricsRows& rows) {
  std::vector<std::string> headers{"EPOCH", "STEP"};
  for (std::string name : rows.names) {
    std::transform(name.begin(), name.end(), name.begin(),
                   [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
    headers.push_back(std::move(name));
  }
  std::vector<std::vector<std::string>> cells;
  for (size_t i = 0; i < rows.size(); ++i) {
    std::vector<std::string> row{cat(rows.epochs[i]), cat(rows.steps[i])};
    for (const double value : rows.values[i]) row.push_back(rounded(value));
    cells.push_back(std::move(row));
  }
  return format_table(headers, cells, true, {.columns = stdout_columns()});
}

// Runs have the names that the user typed: folders at different places may have the same last name.
void print_json_points(const PlotCommand& command, const std::vector<Curve>& curves) {
  JsonLine line;
  for (size_t c = 0; c < curves.size(); ++c) {
    for (size_t i = 0; i < curves[c].steps.size(); ++i) {
      line.clear();
      line.add("apiVersion", kApiVersion).add("kind", "Point").add("run", command.names[c]);
      line.add("metric", command.metric).add("step", static_cast<int64_t>(curves[c].steps[i]));
      std::fputs(line.add("value", curves[c].values[i]).text().c_str(), stdout);
    }
  }
}

void warn_of_unreadable(const MetricsTable& table) {
  if (table.unreadable == 0) return;
  std::fputs(cat("leat: note: ", table.unreadable, " lines of metrics.jsonl are no rows\n").c_str(),
             stderr);
}

// A picture of twice the size, for screens of many pixels.
Result<std::string> png_of(const std::string& svg) {
  auto png = run_filter({"rsvg-convert", "--format=png", "--zoom=2"}, svg, kDraws);
  if (png.ok()) return png;
  return Status(
      png.status().code(),
      cat("a .png file: expected the program of the package librsvg2-bin (apt-get install "
          "librsvg2-bin), or a name that ends in .svg: ",
          png.status().message()));
}

// Writes the picture. The end of its name says of which kind it is.
int write_picture(const PlotCommand& command, const std::vector<Curve>& curves) {
  const ColorMode color = command.cluster.color;
  const bool is_png = command.output.ends_with(".png");
  if (!is_png && !command.output.ends_with(".svg")) {
    return report(
        invalid_argument(cat("'", command.output, "': expected a name that ends in .svg or .png")),
        color);
  }
  const std::string title =
      curves.size() == 1 ? cat(command.metric, " of ", curves[0].label) : command.metric;
  Result<std::string> picture = svg_plot(curves, title);
  if (is_png) picture = png_of(*picture);
  if (!picture.ok()) return report(picture.status(), color);
  const Status written =
      write_file_atomically(real_files(), command.output, std::as_bytes(std::span(*picture)));
  if (!written.ok()) return report(written, color);
  std::puts(command.output.c_str());
  return kExitOk;
}

}  // namespace

int run_metrics(const MetricsCommand& command) {
  RunSource run(command.cluster);
  if (const int code = run.open(command.name); code != kExitOk) return code;
  const auto table = run.metrics();
  if (!table.ok()) return run.report(table.status());
  warn_of_unreadable(*table);
  if (!command.tensorboard.empty()) return export_events(command, run, *table);
  const MetricsRows& rows = command.epochs ? table->of_epochs : table->of_steps;
  if (command.csv) {
    std::fputs(csv_of(rows, command.epochs).c_str(), stdout);
  } else if (command.cluster.json) {
    print_json_rows(rows);
  } else {
    std::fputs(epoch_table(table->of_epochs).c_str(), stdout);
  }
  return kExitOk;
}

int run_plot(const PlotCommand& command) {
  std::vector<Curve> curves;
  for (const std::string& name : command.names) {
    RunSource run(command.cluster);
    if (const int code = run.open(name); code != kExitOk) return code;
    const auto table = run.metrics();
    if (!table.ok()) return run.report(table.status());
    auto curve = curve_of(*table, command.metric);
    if (!curve.ok()) return run.report(curve.status());
    curve->label = run.shown();
    smooth(*curve, command.smooth);
    curves.push_back(std::move(*curve));
  }
  if (!command.output.empty()) return write_picture(command, curves);
  if (command.cluster.json) {
    print_json_points(command, curves);
    return kExitOk;
  }
  const std::string title = curves.size() == 1 ? cat(" of ", curves[0].label) : "";
  print_plot(cat(command.metric, title), curves, 20, command.cluster.color);
  return kExitOk;
}

}  // namespace leat
