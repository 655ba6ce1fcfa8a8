#include "daemon/cli/table.h"

#include <algorithm>

#include "daemon/base/terminal.h"
#include "devices/base/text.h"
#include "devices/base/utf8.h"

namespace leat {
namespace {

constexpr size_t kGap = 2;  // spaces between columns

// The widths of a table's columns; columns of width 0 are left out.
using Widths = std::vector<size_t>;

// The width of a line: all columns that are shown, with gaps between them but none at the end.
size_t total(const Widths& widths) {
  size_t sum = 0;
  for (const size_t width : widths) sum += width > 0 ? width + kGap : 0;
  return sum - std::min(sum, kGap);
}

// Narrows columns, in the order of `fit`, until the lines fit.
void fit_in(Widths& widths, const std::vector<std::string>& headers, const TableFit& fit) {
  for (const GivesWay& each : fit.give_way) {
    const size_t all = total(widths);
    if (fit.columns == 0 || all <= fit.columns) return;
    const auto found = std::find(headers.begin(), headers.end(), each.header);
    if (found == headers.end()) continue;
    size_t& width = widths[static_cast<size_t>(found - headers.begin())];
    // A column gives up only as much as is too wide, so later entries of the list often stay
    // unused.
    const size_t excess = all - fit.columns;
    if (each.least == 0) {
      width = 0;
    } else if (width > each.least) {
      width = std::max(each.least, width - std::min(width, excess));
    }
  }
}

// A line of the table. Spaces come before a cell, not behind it, so that no line ends with spaces.
std::string line_of(const std::vector<std::string>& cells, const Widths& widths) {
  std::string line;
  size_t gap = 0;  // spaces before the next cell
  for (size_t i = 0; i < cells.size(); ++i) {
    if (widths[i] == 0) continue;
    const std::string cell = shortened(cells[i], widths[i]);
    line += std::string(gap, ' ') + cell;
    gap = widths[i] - utf8_characters(cell) + kGap;
  }
  return line;
}

}  // namespace

std::string format_table(const std::vector<std::string>& headers,
                         const std::vector<std::vector<std::string>>& rows, bool with_headers,
                         const TableFit& fit) {
  std::vector<std::vector<std::string>> lines;
  if (with_headers) lines.push_back(headers);
  // Control characters are escaped first, because the widths count the text as it is shown.
  for (const auto& row : rows) {
    auto& line = lines.emplace_back();
    for (const std::string& cell : row) line.push_back(printable(cell));
  }
  Widths widths(headers.size(), 0);
  // The widths are those of the widest cells; fit_in() then narrows some of them.
  for (const auto& line : lines) {
    for (size_t i = 0; i < line.size(); ++i)
      widths[i] = std::max(widths[i], utf8_characters(line[i]));
  }
  fit_in(widths, headers, fit);
  std::string out;
  for (const auto& line : lines) {
    const std::string text = line_of(line, widths);
    // Columns that may not shrink can still be too wide together, so the line itself is cut at
    // last.
    out += (fit.columns == 0 ? text : shortened(text, fit.columns)) + "\n";
  }
  return out;
}

std::string format_age(int64_t milliseconds) {
  const int64_t seconds = std::max<int64_t>(milliseconds, 0) / 1000;
  if (seconds < 60) return std::to_string(seconds) + "s";
  if (seconds < 3600) return std::to_string(seconds / 60) + "m";
  // Up to two days the hours say more than a "1d" would.
  if (seconds < 48 * 3600) return std::to_string(seconds / 3600) + "h";
  return std::to_string(seconds / 86400) + "d";
}

std::string or_dash(std::string text) { return text.empty() ? "-" : text; }

}  // namespace leat
