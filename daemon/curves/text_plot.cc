#include "daemon/curves/text_plot.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "daemon/curves/axis.h"
#include "devices/base/text.h"
#include "devices/base/utf8.h"

namespace leat {
namespace {

constexpr size_t kDotsWide = 2, kDotsHigh = 4;  // of a Braille character
constexpr const char* kColors[] = {"\x1b[34m", "\x1b[31m", "\x1b[32m",
                                   "\x1b[35m", "\x1b[33m", "\x1b[36m"};
constexpr const char* kPlain = "\x1b[0m";

// The bit of a dot in U+2800 + bits, by column and line of dots.
constexpr uint8_t kDotBits[kDotsWide][kDotsHigh] = {{0x01, 0x02, 0x04, 0x40},
                                                    {0x08, 0x10, 0x20, 0x80}};

std::string braille(uint8_t bits) {
  const uint32_t code = 0x2800u + bits;
  return {static_cast<char>(0xE0 | (code >> 12)), static_cast<char>(0x80 | ((code >> 6) & 0x3F)),
          static_cast<char>(0x80 | (code & 0x3F))};
}

// The area of the curves: a character for each cell.
class Canvas {
 public:
  Canvas(size_t columns, size_t lines)
      : columns_(columns), lines_(lines), cells_(columns * lines) {}

  // Draws a curve; those that are drawn later lie on top.
  void draw(const Curve& curve, const Axes& axes, size_t index) {
    double last_x = 0, last_y = 0;
    for (size_t i = 0; i < curve.values.size(); ++i) {
      const double x = axes.steps.place(curve.steps[i]) * static_cast<double>(wide() - 1);
      const double y = (1 - axes.values.place(curve.values[i])) * static_cast<double>(high() - 1);
      line(i == 0 ? x : last_x, i == 0 ? y : last_y, x, y, index);
      last_x = x;
      last_y = y;
    }
  }

  std::string text(size_t line, bool color, bool letters) const {
    std::string out;
    for (size_t column = 0; column < columns_; ++column) {
      const Cell& cell = cells_[line * columns_ + column];
      if (cell.bits == 0) {
        out += ' ';
      } else if (letters && !color) {
        out += static_cast<char>('a' + cell.curve % 26);
      } else if (color) {
        out += cat(kColors[cell.curve % std::size(kColors)], braille(cell.bits), kPlain);
      } else {
        out += braille(cell.bits);
      }
    }
    return out;
  }

 private:
  struct Cell {
    uint8_t bits = 0;
    size_t curve = 0;
  };

  size_t wide() const { return columns_ * kDotsWide; }
  size_t high() const { return lines_ * kDotsHigh; }

  void line(double x0, double y0, double x1, double y1, size_t index) {
    const auto steps = static_cast<int>(std::ceil(std::max(std::abs(x1 - x0), std::abs(y1 - y0))));
    for (int i = 0; i <= steps; ++i) {
      const double part = steps == 0 ? 0 : static_cast<double>(i) / steps;
      dot(x0 + part * (x1 - x0), y0 + part * (y1 - y0), index);
    }
  }

  void dot(double x, double y, size_t index) {
    const auto dot_x = static_cast<size_t>(std::lround(x)),
               dot_y = static_cast<size_t>(std::lround(y));
    Cell& cell = cells_[dot_y / kDotsHigh * columns_ + dot_x / kDotsWide];
    if (cell.curve != index) cell = {0, index};
    cell.bits |= kDotBits[dot_x % kDotsWide][dot_y % kDotsHigh];
  }

  const size_t columns_, lines_;
  std::vector<Cell> cells_;
};

// The ticks of the values, by the line that each is nearest to.
std::vector<std::string> labels_of_lines(const Axis& axis, size_t lines) {
  std::vector<std::string> labels(lines);
  for (const double tick : axis.ticks) {
    const double line = (1 - axis.place(tick)) * static_cast<double>(lines - 1);
    labels[static_cast<size_t>(std::lround(line))] = tick_text(tick);
  }
  return labels;
}

// The line of the steps' axis and the numbers below it.
std::string step_axis(const Axis& axis, size_t margin, size_t columns) {
  std::string rule;
  std::vector<bool> ticked(columns, false);
  std::string numbers(margin + 1 + columns, ' ');
  size_t free = 0;  // the first column without a number
  for (const double tick : axis.ticks) {
    const auto at =
        static_cast<size_t>(std::lround(axis.place(tick) * static_cast<double>(columns - 1)));
    ticked[at] = true;
    const std::string text = tick_text(tick);
    const size_t center = margin + 1 + at;
    const size_t begin =
        std::min(center - std::min(center, text.size() / 2), numbers.size() - text.size());
    if (begin < free) continue;
    numbers.replace(begin, text.size(), text);
    free = begin + text.size() + 1;
  }
  for (const bool tick : ticked) rule += tick ? "┬" : "─";
  numbers.erase(numbers.find_last_not_of(' ') + 1);
  return cat(std::string(margin, ' '), "└", rule, "\n", numbers, "\n");
}

}  // namespace

std::string text_plot(std::span<const Curve> curves, const TextPlotSize& size, bool color) {
  const size_t lines = std::max<size_t>(4, size.lines);
  const Axes axes = axes_of(curves, static_cast<int>(std::max<size_t>(30, size.columns) / 16),
                            static_cast<int>(lines / 4));
  const std::vector<std::string> labels = labels_of_lines(axes.values, lines);
  size_t margin = 0;
  for (const std::string& label : labels) margin = std::max(margin, label.size());
  ++margin;
  const size_t columns = std::max<size_t>(30, size.columns) - margin - 1;
  Canvas canvas(columns, lines);
  for (size_t i = 0; i < curves.size(); ++i)
    canvas.draw(thinned(curves[i], columns * kDotsWide), axes, i);
  std::string out;
  for (size_t line = 0; line < lines; ++line) {
    // Nothing is printed behind the last dot.
    std::string area = canvas.text(line, color, curves.size() > 1);
    area.erase(area.find_last_not_of(' ') + 1);
    out += std::string(margin - 1 - labels[line].size(), ' ') + labels[line];
    out += cat(" ", labels[line].empty() ? "│" : "┤", area, "\n");
  }
  out += step_axis(axes.steps, margin, columns);
  for (size_t i = 0; i < curves.size() && curves.size() > 1; ++i) {
    const std::string mark = color ? cat(kColors[i % std::size(kColors)], "━━", kPlain)
                                   : std::string(1, static_cast<char>('a' + i % 26));
    out += cat("  ", mark, "  ", curves[i].label, "\n");
  }
  return out;
}

}  // namespace leat
