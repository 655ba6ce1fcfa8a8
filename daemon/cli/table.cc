#include "daemon/cli/table.h"

#include <algorithm>

#include "daemon/cli/terminal.h"

namespace leat {

std::string format_table(const std::vector<std::string>& headers,
                         const std::vector<std::vector<std::string>>& rows, bool with_headers) {
  std::vector<std::vector<std::string>> lines;
  if (with_headers) lines.push_back(headers);
  for (const auto& row : rows) {
    auto& line = lines.emplace_back();
    for (const std::string& cell : row) line.push_back(printable(cell));
  }
  std::vector<size_t> widths(headers.size(), 0);
  for (const auto& line : lines) {
    for (size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], line[i].size());
  }
  std::string out;
  for (const auto& line : lines) {
    for (size_t i = 0; i + 1 < line.size(); ++i) {
      out += line[i] + std::string(widths[i] - line[i].size() + 2, ' ');
    }
    out += line.back() + "\n";
  }
  return out;
}

std::string format_age(int64_t milliseconds) {
  const int64_t seconds = std::max<int64_t>(milliseconds, 0) / 1000;
  if (seconds < 60) return std::to_string(seconds) + "s";
  if (seconds < 3600) return std::to_string(seconds / 60) + "m";
  if (seconds < 48 * 3600) return std::to_string(seconds / 3600) + "h";
  return std::to_string(seconds / 86400) + "d";
}

std::string or_dash(std::string text) { return text.empty() ? "-" : text; }

std::string shortened(std::string_view text, size_t most) {
  if (text.size() <= most) return std::string(text);
  return std::string(text.substr(0, most - 3)) + "...";
}

}  // namespace leat
